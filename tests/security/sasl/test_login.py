"""Every sequence of up to five requests of a login, compared with a model."""

import struct
from collections.abc import Iterator

import pytest

from barnabas.model.errors import Code
from barnabas.security.sasl.credentials import HASHES, credential
from barnabas.security.sasl.login import (
    FRAMES_MAX,
    AnswerVersions,
    EnabledMechanism,
    Login,
    LoginContinues,
    LoginEffect,
    LoginRefused,
    LoginSucceeded,
    SaslSession,
)
from barnabas.security.sasl.mechanism import SCRAM_SHA_256, SaslIdentity
from barnabas.security.sasl.plain import PlainServer, password_check
from barnabas.security.sasl.scram_client import ScramClient
from barnabas.security.sasl.scram_server import FoundCredential, ScramServer
from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import read_response, request_frame
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

HASH = HASHES[SCRAM_SHA_256]
STORED = credential(HASH, "pencil", b"salt", 4096)
NONCE = "clientnonce"
RIGHT, WRONG = b"\0alice\0pencil", b"\0alice\0pen"


def mechanisms(
    session_ms_max: int = 0, expires_ms: int | None = None
) -> dict[str, EnabledMechanism]:
    check = password_check({"alice": "pencil", "bob": "brush"})
    identity = SaslIdentity("alice", expires_ms)
    return {
        "PLAIN": EnabledMechanism(lambda: PlainServer(check), session_ms_max),
        SCRAM_SHA_256: EnabledMechanism(
            lambda: ScramServer(HASH, "s", lambda user, _: FoundCredential(STORED, identity)),
            session_ms_max,
        ),
    }


def framed(message: ProtocolMessage, version: int) -> bytes:
    return request_frame(message.api_key, version, 7, "test", message)[4:]


def handshake(mechanism: str, version: int) -> bytes:
    return framed(SaslHandshakeRequest(mechanism=mechanism), version)


def token(data: bytes, version: int = 2) -> bytes:
    return framed(SaslAuthenticateRequest(auth_bytes=data), version)


def scram_final() -> bytes:
    client = ScramClient(HASH, "alice", "pencil", NONCE)
    server = mechanisms()[SCRAM_SHA_256].begin()
    final = client.respond(server.respond(client.first()))
    assert final is not None
    return final


FIRST = ScramClient(HASH, "alice", "pencil", NONCE).first()
FINAL = scram_final()

FRAMES = {
    "versions": framed(
        ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3
    ),
    "bad versions": framed(
        ApiVersionsRequest(client_software_name="!", client_software_version="!"), 3
    ),
    "plain v0": handshake("PLAIN", 0),
    "plain v1": handshake("PLAIN", 1),
    "scram v0": handshake(SCRAM_SHA_256, 0),
    "scram v1": handshake(SCRAM_SHA_256, 1),
    "unknown": handshake("GSSAPI", 1),
    "token right": token(RIGHT),
    "token wrong": token(WRONG),
    "token first": token(FIRST),
    "token final": token(FINAL),
    "raw right": RIGHT,
    "raw wrong": WRONG,
    "raw first": FIRST,
    "raw final": FINAL,
    "metadata": framed(MetadataRequest(topics=None), 12),
    "empty": b"",
}

# What the model knows: state -> frame -> next state. Anything else fails.
_BEGUN = {
    "plain v0": "plain raw",
    "plain v1": "plain",
    "scram v0": "scram raw",
    "scram v1": "scram",
}
MODEL: dict[str, dict[str, str]] = {
    "new": {"versions": "greeted", "bad versions": "new", **_BEGUN},
    "greeted": _BEGUN,
    "plain": {"token right": "in"},
    "plain raw": {"raw right": "in"},
    "scram": {"token first": "scram 2"},
    "scram raw": {"raw first": "scram 2 raw"},
    "scram 2": {"token final": "in"},
    "scram 2 raw": {"raw final": "in"},
}


def sequences(length: int) -> Iterator[tuple[list[str], str]]:
    """All sequences whose frames before the last one are legal, and where the model ends."""

    def extend(so_far: list[str], state: str) -> Iterator[tuple[list[str], str]]:
        for frame in FRAMES:
            after = MODEL[state].get(frame, "failed")
            yield [*so_far, frame], after
            if after not in ("in", "failed") and len(so_far) + 1 < length:
                yield from extend([*so_far, frame], after)

    yield from extend([], "new")


def drive(login: Login, frames: list[str]) -> LoginEffect:
    effect: LoginEffect = LoginContinues([])
    for name in frames:
        effect = login.received(memoryview(FRAMES[name]), now_ms=1_000, wall_ms=5_000)
        if isinstance(effect, AnswerVersions):
            login.versions_answered(name == "versions")
    return effect


def test_every_sequence_of_five_frames_ends_as_in_the_model() -> None:
    count = 0
    for frames, expected in sequences(5):
        effect = drive(Login(mechanisms()), frames)
        count += 1
        if expected == "in":
            assert isinstance(effect, LoginSucceeded), frames
            assert effect.session.identity.user == "alice"
        elif expected == "failed":
            assert isinstance(effect, LoginRefused), frames
        else:
            assert isinstance(effect, LoginContinues | AnswerVersions), frames
    assert count > 700


@pytest.mark.parametrize("key", sorted(set(APIS) - {17, 18}))
def test_no_api_is_legal_before_a_login(key: int) -> None:
    """The body is not even decoded: it is missing here."""
    for version in range(-1, APIS[key].max_version + 2):
        header = struct.pack(">hhih", key, version, 7, -1) + b"\0"
        for begun in ([], ["versions"]):
            login = Login(mechanisms())
            drive(login, begun)
            assert isinstance(login.received(header, 1, 1), LoginRefused)
        if key != 36:
            login = Login(mechanisms())
            drive(login, ["plain v1"])
            assert isinstance(login.received(header, 1, 1), LoginRefused)


@pytest.mark.parametrize("version", [-1, 2, 3, 32767])
def test_versions_that_do_not_exist_are_refused(version: int) -> None:
    for key, begun in ((17, []), (36, ["plain v1"])):
        if (key, version) == (36, 2):
            continue
        login = Login(mechanisms())
        drive(login, begun)
        assert isinstance(
            login.received(struct.pack(">hhih", key, version, 7, -1), 1, 1), LoginRefused
        )


@pytest.mark.parametrize("length", range(17))
def test_raw_tokens_of_any_short_length_are_looked_at(length: int) -> None:
    login = Login(mechanisms())
    drive(login, ["plain v0"])
    assert isinstance(login.received(b"x" * length, 1, 1), LoginRefused)
    login = Login(mechanisms())
    assert isinstance(login.received(b"x" * length, 1, 1), LoginRefused)


def test_a_raw_reply_is_its_size_and_its_bytes() -> None:
    effect = drive(Login(mechanisms()), ["plain v0", "raw right"])
    assert isinstance(effect, LoginSucceeded)
    assert effect.reply == [b"\0\0\0\0"]
    effect = drive(Login(mechanisms()), ["scram v0", "raw first"])
    assert isinstance(effect, LoginContinues)
    (reply,) = effect.reply
    assert reply[4:].startswith(b"r=clientnonces,")
    assert len(reply) == 4 + reply[3]


def test_a_failure_without_a_header_has_no_reply() -> None:
    effect = drive(Login(mechanisms()), ["plain v0", "raw wrong"])
    assert effect == LoginRefused([], "user 'alice': unknown user or wrong password")


def test_an_unknown_mechanism_gets_the_list() -> None:
    effect = drive(Login(mechanisms()), ["unknown"])
    assert isinstance(effect, LoginRefused)
    response = read_response(effect.reply[0][4:], 17, 1)[1]
    assert response == SaslHandshakeResponse(
        error_code=Code.UNSUPPORTED_SASL_MECHANISM, mechanisms=["PLAIN", SCRAM_SHA_256]
    )


def answered(effect: LoginEffect) -> SaslAuthenticateResponse:
    assert not isinstance(effect, AnswerVersions)
    response = read_response(effect.reply[0][4:], 36, 2)[1]
    assert isinstance(response, SaslAuthenticateResponse)
    return response


def test_all_failures_of_a_mechanism_say_the_same() -> None:
    texts = set()
    for data in (WRONG, b"\0nobody\0pencil", b"", b"\0\0", b"bob\0alice\0pencil", b"\xff", FINAL):
        login = Login(mechanisms())
        drive(login, ["plain v1"])
        effect = login.received(token(data), 1, 1)
        assert isinstance(effect, LoginRefused)
        response = answered(effect)
        assert response.error_code == Code.SASL_AUTHENTICATION_FAILED
        texts.add((response.error_message, bytes(response.auth_bytes)))
    assert len(texts) == 1


def test_a_login_has_a_bounded_number_of_requests() -> None:
    login = Login(mechanisms())
    for _ in range(FRAMES_MAX):
        assert isinstance(drive(login, ["bad versions"]), AnswerVersions)
    assert isinstance(drive(login, ["bad versions"]), LoginRefused)


@pytest.mark.parametrize(
    ("limit_ms", "expires_ms", "lifetime_ms"),
    [
        (0, None, 0), (60_000, None, 60_000), (0, 35_000, 30_000), (60_000, 35_000, 30_000),
        (20_000, 35_000, 20_000), (20_000, 1_000, 0),
    ],
)  # fmt: skip
def test_a_session_lasts_as_long_as_the_shorter_of_limit_and_token(
    limit_ms: int, expires_ms: int | None, lifetime_ms: int
) -> None:
    login = Login(mechanisms(limit_ms, expires_ms))
    effect = drive(login, ["scram v1", "token first", "token final"])
    assert isinstance(effect, LoginSucceeded)
    assert answered(effect).session_lifetime_ms == lifetime_ms
    limited = bool(limit_ms or expires_ms)
    assert effect.session.expires_at == (1_000 + lifetime_ms if limited else None)


# Re-authentication

ALICE = SaslSession("PLAIN", SaslIdentity("alice"), 1_000, 61_000)


def test_a_session_may_authenticate_again_after_a_second_if_it_expires() -> None:
    assert not ALICE.may_authenticate_again(1_999)
    assert ALICE.may_authenticate_again(2_000)
    assert not ALICE._replace(expires_at=None).may_authenticate_again(2_000)
    assert not ALICE.is_expired(61_000)
    assert ALICE.is_expired(61_001)


def test_a_client_authenticates_again_with_a_handshake_alone() -> None:
    effect = drive(Login(mechanisms(60_000), ALICE), ["plain v1", "token right"])
    assert isinstance(effect, LoginSucceeded)
    assert effect.session.expires_at == 61_000
    assert isinstance(drive(Login(mechanisms(), ALICE), ["versions"]), LoginRefused)


def test_a_client_cannot_authenticate_again_as_another() -> None:
    login = Login(mechanisms(60_000), ALICE)
    drive(login, ["plain v1"])
    effect = login.received(token(b"\0bob\0brush"), 1, 1)
    assert isinstance(effect, LoginRefused)
    message = answered(effect).error_message
    assert message is not None
    assert "re-authentication" in message
    assert "bob" not in message


def test_a_client_cannot_authenticate_again_with_another_mechanism() -> None:
    assert isinstance(drive(Login(mechanisms(60_000), ALICE), ["scram v1"]), LoginRefused)
