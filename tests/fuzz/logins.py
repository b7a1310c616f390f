"""Makes requests of logins: tokens of each mechanism, whole and damaged.

In: a source of chance. Out: request frames with their size, or bare tokens.
"""

from random import Random
from struct import pack

from barnabas.model.errors import KafkaError
from barnabas.wire.frames import SIZE_SIZE, read_response, request_frame
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.fuzz.mutate import framed, mutated
from tests.fuzz.replies import Unfit

HANDSHAKE, AUTHENTICATE, API_VERSIONS = 17, 36, 18
REQUESTS = 2  # of a login
_MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "", "plain"]
_TOKENS = [
    b"\0few\0wrong",
    b"few\0few\0wrong",
    b"\0\0",
    b"",
    b"n,,n=few,r=fyko+d2lbbFgONRv9qkxdawL",
    b"n,,n=f=3Dew,r=x,tokenauth=true",
    b"n,a=admin,n=few,r=x",
    b"p=tls-unique,,n=few,r=x",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7A=",
    b"c=biws,r=,p=",
    b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiIsImV4cCI6OTk5OTk5OTk5OX0.\x01\x01",
    b"n,a=admin,\x01auth=Bearer x.y.z\x01k=v\x01\x01",
    b"\x01",
    bytes(600_000),
]


def frames(user: str, password: str) -> bytes:
    """A login that succeeds, by PLAIN."""
    token = f"\0{user}\0{password}".encode()
    handshake = SaslHandshakeRequest(mechanism="PLAIN")
    answer = SaslAuthenticateRequest(auth_bytes=token)
    return request_frame(HANDSHAKE, 1, 1, "fuzz", handshake) + request_frame(
        AUTHENTICATE, 2, 2, "fuzz", answer
    )


def check_success(received: bytes) -> None:
    """That the login of `frames` was answered, and with success."""
    position = SIZE_SIZE + int.from_bytes(received[:SIZE_SIZE], "big")
    size = int.from_bytes(received[position : position + SIZE_SIZE], "big")
    reply = received[position + SIZE_SIZE : position + SIZE_SIZE + size]
    try:
        _, response = read_response(reply, AUTHENTICATE, 2)
    except KafkaError as error:
        raise Unfit(f"the login was answered with {received.hex()}: {error}") from error
    if not isinstance(response, SaslAuthenticateResponse) or response.error_code:
        raise Unfit(f"the login was answered with {response}")


def login_request(random: Random) -> bytes:
    """Of a login, in any order, or something else for a login."""
    kind = random.random()
    token = random.choice(_TOKENS) if random.random() < 0.97 else random.randbytes(40)
    if len(token) > 1000 and random.random() < 0.95:
        token = token[: random.randrange(40)]
    if random.random() < 0.3 and 0 < len(token) < 1000:
        token = mutated(token + bytes(max(0, 8 - len(token))), random)
    number = random.getrandbits(31)
    if kind < 0.1:
        return pack(">i", len(token)) + token  # a bare one, as after version 0
    if kind < 0.25:
        version = random.choice((0, 1, 2, 3, 4, 9))
        frame = request_frame(
            API_VERSIONS,
            min(version, 4),
            number,
            "fuzz",
            ApiVersionsRequest(client_software_name="f", client_software_version="1"),
        )
    elif kind < 0.6:
        version = random.choice((0, 1, 1, 1))
        mechanism = random.choice(_MECHANISMS)
        request = SaslHandshakeRequest(mechanism=mechanism)
        frame = request_frame(HANDSHAKE, version, number, "fuzz", request)
    else:
        version = random.choice((0, 1, 2))
        answer = SaslAuthenticateRequest(auth_bytes=token)
        frame = request_frame(AUTHENTICATE, version, number, "fuzz", answer)
    body = frame[4:]
    return framed(mutated(body, random) if random.random() < 0.3 else body)
