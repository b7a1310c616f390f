"""The messages of a SCRAM exchange (RFC 5802), read and written.

Always: a message that is not exactly as expected is refused; names are compared byte by byte, as
no Kafka client normalizes them.
"""

import re
from base64 import b64decode, b64encode
from typing import NamedTuple

from barnabas.security.sasl.credentials import SALT_LENGTH_MAX
from barnabas.security.sasl.mechanism import LoginFailed

MESSAGE_LENGTH_MAX = 4_096
_NAME = r"(?:[^\x00=,]|=2C|=3D)+"
_BASE64 = r"[a-zA-Z0-9/+]*={0,2}"
_EXTENSIONS = r"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<unproved>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_SERVER_FINAL = re.compile(rf"v=(?P<signature>{_BASE64}){_EXTENSIONS}")


class ClientFirst(NamedTuple):
    """The user and the client's nonce. `bare` is signed; `gs2` is repeated in the last message."""

    gs2: str
    bare: str
    user: str
    authorization_id: str
    nonce: str
    token: bool


class ClientFinal(NamedTuple):
    """The proof, and the rest of the message, which is signed."""

    unproved: str
    gs2: bytes
    nonce: str
    proof: bytes


class ServerFirst(NamedTuple):
    text: str
    nonce: str
    salt: bytes
    iterations: int


def saslname(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def _user(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def read_client_first(message: bytes) -> ClientFirst:
    found = _match(_CLIENT_FIRST, message, "first message")
    extensions = dict(
        each.split("=", 1) for each in found["extensions"].removeprefix(",").split(",") if each
    )
    return ClientFirst(
        found["gs2"],
        found["bare"],
        _user(found["name"]),
        _user(found["authzid"] or ""),
        found["nonce"],
        extensions.get("tokenauth", "").lower() == "true",
    )


def read_client_final(message: bytes) -> ClientFinal:
    found = _match(_CLIENT_FINAL, message, "last message")
    return ClientFinal(
        found["unproved"], _bytes(found["binding"]), found["nonce"], _bytes(found["proof"])
    )


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    return f"r={nonce},s={b64encode(salt).decode()},i={iterations}"


def read_server_first(message: bytes) -> ServerFirst:
    found = _match(_SERVER_FIRST, message, "first reply")
    salt = _bytes(found["salt"])
    if not salt or len(salt) > SALT_LENGTH_MAX:
        raise LoginFailed(f"the broker sent a salt of {len(salt)} bytes")
    return ServerFirst(str(message, "utf-8"), found["nonce"], salt, int(found["iterations"]))


def read_server_final(message: bytes) -> bytes:
    """The signature of the broker."""
    if message.startswith(b"e="):
        raise LoginFailed(f"the broker answered {message[:100]!r}")
    return _bytes(_match(_SERVER_FINAL, message, "last reply")["signature"])


def _match(pattern: re.Pattern[str], message: bytes, what: str) -> re.Match[str]:
    if len(message) > MESSAGE_LENGTH_MAX:
        raise LoginFailed(f"the {what} has {len(message)} bytes, {MESSAGE_LENGTH_MAX} at most")
    try:
        found = pattern.fullmatch(str(message, "utf-8"))
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise LoginFailed(f"the {what} is not SCRAM")
    return found


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise LoginFailed("not base64") from None
