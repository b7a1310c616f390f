"""SCRAM between our client and our server, and messages that must be refused."""

import pytest

from barnabas.security.sasl.credentials import (
    HASHES,
    ScramCredential,
    credential,
    credential_text,
    fake_credential,
    from_salted,
    read_credential,
)
from barnabas.security.sasl.mechanism import SCRAM_SHA_256, SCRAMS, LoginFailed, SaslIdentity
from barnabas.security.sasl.scram_client import ScramClient
from barnabas.security.sasl.scram_server import FoundCredential, ScramServer

SALT = b"0123456789abcdef"


def server(
    mechanism: str, users: dict[str, str], nonce: str = "servernonce", iterations: int = 4096
) -> ScramServer:
    hash_ = HASHES[mechanism]

    def find(user: str, by_token: bool) -> FoundCredential:
        password = users.get(user)
        if password is None or by_token:
            return FoundCredential(fake_credential(hash_, b"secret", user, iterations), None)
        return FoundCredential(credential(hash_, password, SALT, iterations), SaslIdentity(user))

    return ScramServer(hash_, nonce, find)


def exchange(client: ScramClient, broker: ScramServer) -> None:
    final = client.respond(broker.respond(client.first()))
    assert final is not None
    assert client.respond(broker.respond(final)) is None


@pytest.mark.parametrize("mechanism", SCRAMS)
@pytest.mark.parametrize(
    "user", ["alice", "a,b", "a=b", "=2C", "=3D2C", "ü", "u\u0308", "a b", "☃" * 50]
)
def test_a_client_with_the_right_password_is_logged_in(mechanism: str, user: str) -> None:
    broker = server(mechanism, {user: "pencil"})
    client = ScramClient(HASHES[mechanism], user, "pencil", "clientnonce")
    exchange(client, broker)
    assert broker.identity == SaslIdentity(user)
    assert client.done


def test_a_client_that_repeats_its_nonce_is_refused_with_the_remedy() -> None:
    """librdkafka before 2.6.1 does so; Kafka 4 refuses it too."""
    broker = server(SCRAM_SHA_256, {"alice": "pencil"})
    client = ScramClient(HASHES[SCRAM_SHA_256], "alice", "pencil", "clientnonce")
    final = client.respond(broker.respond(client.first()))
    assert final is not None
    with pytest.raises(LoginFailed, match=r"librdkafka before 2\.6\.1"):
        broker.respond(final.replace(b"r=", b"r=clientnonce"))
    assert broker.identity is None


def test_the_example_of_the_standard_for_sha_256_is_reproduced() -> None:
    """RFC 7677, chapter 3."""
    from base64 import b64decode

    hash_ = HASHES[SCRAM_SHA_256]
    stored = credential(hash_, "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    broker = ScramServer(
        hash_,
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        lambda user, by_token: FoundCredential(stored, SaslIdentity(user)),
    )
    client = ScramClient(hash_, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    reply = broker.respond(client.first())
    assert reply == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = client.respond(reply)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert broker.respond(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", SCRAMS)
def test_an_unknown_user_and_a_wrong_password_get_the_same_messages(mechanism: str) -> None:
    seen = []
    for user, password in (("alice", "wrong"), ("nobody", "pencil")):
        broker = server(mechanism, {"alice": "pencil"})
        client = ScramClient(HASHES[mechanism], user, password, "clientnonce")
        reply = broker.respond(client.first())
        final = client.respond(reply)
        assert final is not None
        with pytest.raises(LoginFailed) as failure:
            broker.respond(final)
        assert broker.identity is None
        seen.append((reply.count(b","), reply[-6:], str(failure.value).replace(user, "")))
    assert seen[0] == seen[1]


def test_the_salt_of_an_unknown_user_is_always_the_same_and_its_own() -> None:
    hash_ = HASHES[SCRAM_SHA_256]
    first = fake_credential(hash_, b"secret", "nobody", 4096)
    assert fake_credential(hash_, b"secret", "nobody", 4096).salt == first.salt
    assert fake_credential(hash_, b"secret", "somebody", 4096).salt != first.salt
    assert fake_credential(hash_, b"another", "nobody", 4096).salt != first.salt


@pytest.mark.parametrize(
    "first",
    [
        b"", b"n", b"n,,", b"n,,n=a", b"n,,n=,r=x", b"n,,n=a,r=", b"y,,n=a,r=x", b"p=tls,,n=a,r=x",
        b"n,,m=x,n=a,r=x", b"n,,n=a=b,r=x", b"n,,n=a=2c,r=x", b"n,,n=a\0,r=x", b"n,,n=\xff,r=x",
        b"n,,n=a,r=x y", b"n,,n=a,r=x,", b"n,,n=a,r=x,7=y", b"n,,n=a,r=" + b"x" * 5_000,
        b"n,a=other,n=alice,r=x", b"n,alice,n=alice,r=x",
    ],
)  # fmt: skip
def test_a_first_message_that_is_not_scram_is_refused(first: bytes) -> None:
    with pytest.raises(LoginFailed):
        server(SCRAM_SHA_256, {"alice": "pencil"}).respond(first)


def test_a_client_may_name_itself_as_authorization_id_and_nobody_else() -> None:
    reply = server(SCRAM_SHA_256, {"a,b": "pencil"}).respond(b"n,a=a=2Cb,n=a=2Cb,r=x")
    assert reply.startswith(b"r=xservernonce,")
    with pytest.raises(LoginFailed, match="requests to act as"):
        server(SCRAM_SHA_256, {"alice": "pencil"}).respond(b"n,a=admin,n=alice,r=x")


def test_a_recorded_exchange_cannot_be_played_back() -> None:
    client = ScramClient(HASHES[SCRAM_SHA_256], "alice", "pencil", "clientnonce")
    broker = server(SCRAM_SHA_256, {"alice": "pencil"}, nonce="one")
    first = client.first()
    final = client.respond(broker.respond(first))
    assert final is not None
    broker.respond(final)
    again = server(SCRAM_SHA_256, {"alice": "pencil"}, nonce="two")
    again.respond(first)
    with pytest.raises(LoginFailed, match="nonce"):
        again.respond(final)


@pytest.mark.parametrize("change", range(4))
def test_a_last_message_that_was_changed_is_refused(change: int) -> None:
    client = ScramClient(HASHES[SCRAM_SHA_256], "alice", "pencil", "clientnonce")
    broker = server(SCRAM_SHA_256, {"alice": "pencil"})
    final = client.respond(broker.respond(client.first()))
    assert final is not None
    bad = (
        final.replace(b"c=biws", b"c=eSws"),
        final.replace(b"clientnonce", b"othernonce!"),
        final[: final.index(b"p=")] + b"p=",
        final.replace(b",p=", b",x=y,p="),
    )[change]
    with pytest.raises(LoginFailed):
        broker.respond(bad)


def test_a_token_after_the_end_is_refused() -> None:
    client = ScramClient(HASHES[SCRAM_SHA_256], "alice", "pencil", "clientnonce")
    broker = server(SCRAM_SHA_256, {"alice": "pencil"})
    exchange(client, broker)
    with pytest.raises(LoginFailed):
        broker.respond(client.first())
    with pytest.raises(LoginFailed):
        client.respond(b"v=")


@pytest.mark.parametrize(
    "reply",
    [
        b"", b"r=other,s=MTIz,i=4096", b"r=clientnonce,s=MTIz,i=4096",
        b"r=clientnoncex,s=MTIz,i=4095", b"r=clientnoncex,s=MTIz,i=200001",
        b"r=clientnoncex,s=MTIz,i=99999999999", b"r=clientnoncex,s=,i=4096",
        b"r=clientnoncex,s=!,i=4096", b"e=other-error",
    ],
)  # fmt: skip
def test_a_client_refuses_a_bad_reply(reply: bytes) -> None:
    """A broker could otherwise make it compute for minutes, or learn from a weak hash."""
    client = ScramClient(HASHES[SCRAM_SHA_256], "alice", "pencil", "clientnonce")
    with pytest.raises(LoginFailed):
        client.respond(reply)


def test_a_client_refuses_a_broker_that_does_not_know_the_password() -> None:
    client = ScramClient(HASHES[SCRAM_SHA_256], "alice", "pencil", "clientnonce")
    broker = server(SCRAM_SHA_256, {"alice": "pencil"})
    assert client.respond(broker.respond(client.first())) is not None
    with pytest.raises(LoginFailed, match="does not know the password"):
        client.respond(b"v=" + b"A" * 43 + b"=")
    assert not client.done


@pytest.mark.parametrize("mechanism", SCRAMS)
def test_a_credential_is_read_as_it_was_written(mechanism: str) -> None:
    hash_ = HASHES[mechanism]
    stored = credential(hash_, "pencil", SALT, 8192)
    text = credential_text(stored)
    assert read_credential(hash_, text) == stored
    assert text.startswith("salt=MDEyMzQ1Njc4OWFiY2RlZg==,stored_key=")
    assert text.endswith(",iterations=8192")
    salted = hash_.salted("pencil", SALT, 8192)
    assert from_salted(hash_, salted, SALT, 8192) == stored


@pytest.mark.parametrize(
    "text",
    [
        "", "salt=", "salt=x,stored_key=y,server_key=z", "salt=MTIz,salt=MTIz",
        "salt=MTIz,stored_key=MTIz,server_key=MTIz,iterations=4096",
        "salt=MTIz,stored_key=MTIz,server_key=MTIz,iterations=x",
    ],
)  # fmt: skip
def test_a_damaged_credential_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_credential(HASHES[SCRAM_SHA_256], text)


def test_a_credential_with_too_few_iterations_is_refused() -> None:
    weak = credential(HASHES[SCRAM_SHA_256], "pencil", SALT, 100)
    with pytest.raises(ValueError, match="4096 iterations"):
        read_credential(HASHES[SCRAM_SHA_256], credential_text(weak))


def test_a_credential_does_not_print_its_keys() -> None:
    assert repr(ScramCredential(b"s", b"k", b"v", 4096)) == "ScramCredential(iterations=4096)"
