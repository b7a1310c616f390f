"""PLAIN: the one token, and what is refused."""

import pytest

from barnabas.security.sasl.mechanism import LoginFailed, SaslIdentity
from barnabas.security.sasl.plain import PlainClient, PlainServer, password_check

USERS = {"alice": "pencil", "a,b=c": "p\u00e4ss", "u\u0308": "one", "ü": "two", "empty": ""}


@pytest.mark.parametrize(("user", "password"), [each for each in USERS.items() if each[1]])
def test_a_client_with_the_right_password_is_logged_in(user: str, password: str) -> None:
    server, client = PlainServer(password_check(USERS)), PlainClient(user, password)
    assert server.respond(client.first()) == b""
    assert server.identity == SaslIdentity(user)
    assert client.done


def test_a_client_may_name_itself_as_authorization_id() -> None:
    server = PlainServer(password_check(USERS))
    server.respond(b"alice\0alice\0pencil")
    assert server.identity == SaslIdentity("alice")


@pytest.mark.parametrize(
    "token",
    [
        b"", b"\0", b"\0\0", b"\0\0\0", b"alice", b"\0alice", b"\0alice\0", b"\0\0pencil",
        b"\0alice\0pencil\0", b"bob\0alice\0pencil", b"\0alice\0pen", b"\0nobody\0pencil",
        b"\0nobody\0", b"\0Alice\0pencil", b"\0alice\0\xff", b"\0empty\0", b"\0\xc3\xbc\0one",
    ],
)  # fmt: skip
def test_other_tokens_are_refused(token: bytes) -> None:
    server = PlainServer(password_check(USERS))
    with pytest.raises(LoginFailed):
        server.respond(token)
    assert server.identity is None


def test_no_failure_names_a_password() -> None:
    for token in (b"\0alice\0canary", b"canary\0canary", b"\0alice\0canary\0x"):
        with pytest.raises(LoginFailed) as failure:
            PlainServer(password_check(USERS)).respond(token)
        assert "canary" not in str(failure.value)


def test_a_token_after_the_end_is_refused() -> None:
    server = PlainServer(password_check(USERS))
    server.respond(b"\0alice\0pencil")
    with pytest.raises(LoginFailed):
        server.respond(b"\0alice\0pencil")


def test_a_name_with_nul_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="NUL"):
        PlainClient("a\0b", "x")
