"""Logins on a running broker: what is answered before, during and after."""

import asyncio
import json
from pathlib import Path

import pytest

from barnabas.broker.security import authentication
from barnabas.model.errors import Code, KafkaError
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.sasl.client_login import AuthenticationFailed, ClientLogin, SaslLogin
from barnabas.security.sasl.mechanism import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from barnabas.wire.frames import request_frame
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.running import Running, Wire, running_broker
from tests.broker.security.logging_in import PASSWORD, SETTINGS, keeper_with, log_in
from tests.waiting import eventually

METADATA = MetadataRequest(topics=[])


def principal_of(run: Running, wire: Wire) -> Principal:
    (found,) = (each for each in run.broker.connections if each._stream is wire)
    principal: Principal = found.principal
    return principal


async def refused(wire: Wire) -> None:
    with pytest.raises(ConnectionError):
        await wire.take()


@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM_SHA_256, SCRAM_SHA_512])
async def test_a_client_that_logs_in_is_answered(tmp_path: Path, mechanism: str) -> None:
    async with running_broker(tmp_path, SETTINGS, keeper_with({"alice": PASSWORD})) as run:
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        versions = await run.ask(request, ApiVersionsResponse)
        assert {17, 36} <= {each.api_key for each in versions.api_keys}
        assert principal_of(run, run.wire) == ANONYMOUS
        await log_in(run, run.wire, mechanism)
        assert principal_of(run, run.wire) == Principal("User", "alice")
        response = await run.ask(METADATA, MetadataResponse)
        assert response.brokers[0].node_id == run.broker.id
        assert run.broker.counts.logins == 1


async def test_requests_may_follow_the_last_token_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SETTINGS) as run:
        run.send(SaslHandshakeRequest(mechanism=PLAIN))
        token = f"\0alice\0{PASSWORD}".encode()
        run.send(SaslAuthenticateRequest(auth_bytes=token))
        run.send(METADATA)
        handshake = SaslHandshakeRequest(mechanism=PLAIN)
        await run.receive(handshake, SaslHandshakeResponse)
        await run.receive(SaslAuthenticateRequest(auth_bytes=b""), SaslAuthenticateResponse)
        await run.receive(METADATA, MetadataResponse)


async def test_a_request_behind_a_wrong_token_is_never_handled(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SETTINGS) as run:
        run.send(SaslHandshakeRequest(mechanism=PLAIN))
        run.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"))
        run.send(METADATA)
        await run.receive(SaslHandshakeRequest(mechanism=PLAIN), SaslHandshakeResponse)
        answer = await run.receive(
            SaslAuthenticateRequest(auth_bytes=b""), SaslAuthenticateResponse
        )
        assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
        await refused(run.wire)
        assert run.broker.dispatcher.requests[3] == [0]
        assert not run.broker.connections


@pytest.mark.parametrize("request_", [METADATA, SaslAuthenticateRequest(auth_bytes=b"x")])
async def test_other_requests_before_the_login_close_the_connection(
    tmp_path: Path, request_: MetadataRequest
) -> None:
    async with running_broker(tmp_path, SETTINGS) as run:
        run.send(request_)
        await refused(run.wire)
        assert run.broker.counts.logins_failed == 1


async def test_a_wrong_password_and_an_unknown_user_cannot_be_distinguished(tmp_path: Path) -> None:
    texts = set()
    async with running_broker(tmp_path, SETTINGS, keeper_with({"alice": PASSWORD})) as run:
        for user, password in (("alice", "wrong"), ("nobody", PASSWORD)):
            with pytest.raises(AuthenticationFailed) as failure:
                await log_in(run, run.connect(), user=user, password=password)
            texts.add((failure.value.code, failure.value.detail))
        assert len(texts) == 1
        salts = set()
        for _ in range(2):
            wire = run.connect()
            await run.ask(
                SaslHandshakeRequest(mechanism=SCRAM_SHA_256), SaslHandshakeResponse, wire=wire
            )
            first = ClientLogin(SaslLogin(SCRAM_SHA_256, "nobody", "x"), "n")._exchange.first()
            answer = await run.ask(
                SaslAuthenticateRequest(auth_bytes=first), SaslAuthenticateResponse, wire=wire
            )
            salts.add(bytes(answer.auth_bytes).split(b",")[1])
        assert len(salts) == 1


async def test_an_unknown_user_has_as_many_iterations_as_most_users(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SETTINGS) as run:
        assert run.broker.logins is not None
        users = run.broker.logins.users
        from barnabas.security.sasl.credentials import HASHES
        from tests.broker.security.logging_in import user_settings

        hash_ = HASHES[SCRAM_SHA_256]
        assert users.find(hash_, "nobody").credential.iterations == 4096
        await run.broker.catalog.configure_entity(
            "users", "carol", lambda _: user_settings("x", 8192)
        )
        assert users.find(hash_, "nobody").credential.iterations == 8192


async def test_the_salt_of_an_unknown_user_survives_a_restart(tmp_path: Path) -> None:
    from barnabas.security.sasl.credentials import HASHES

    keeper = keeper_with({})
    salts = set()
    for _ in range(2):
        async with running_broker(tmp_path, SETTINGS, keeper) as run:
            assert run.broker.logins is not None
            salts.add(run.broker.logins.users.find(HASHES[SCRAM_SHA_256], "x").credential.salt)
    assert len(salts) == 1


async def test_a_failed_login_is_answered_after_the_delay_and_delays_nobody_else(
    tmp_path: Path,
) -> None:
    settings = {**SETTINGS, "connection.failed.authentication.delay.ms": "2000"}
    async with running_broker(tmp_path, settings) as run:
        began = run.broker.loop.time()
        failing = asyncio.create_task(log_in(run, run.connect(), PLAIN, password="wrong"))
        await log_in(run, run.wire, PLAIN)
        await run.ask(METADATA, MetadataResponse)
        assert not failing.done()
        with pytest.raises(AuthenticationFailed):
            await failing
        assert run.broker.loop.time() - began >= 1.99


async def test_a_client_that_leaves_during_the_delay_is_forgotten(tmp_path: Path) -> None:
    settings = {**SETTINGS, "connection.failed.authentication.delay.ms": "60000"}
    async with running_broker(tmp_path, settings) as run:
        wire = run.connect()
        run.send(METADATA, wire=wire)
        await eventually(lambda: run.broker.counts.logins_failed == 1)
        (connection,) = (each for each in run.broker.connections if each._stream is wire)
        connection.close("")
        assert connection not in run.broker.connections


async def test_after_the_login_sasl_requests_are_illegal(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SETTINGS) as run:
        await log_in(run, run.wire, PLAIN)
        handshake = await run.ask(SaslHandshakeRequest(mechanism=PLAIN), SaslHandshakeResponse)
        assert handshake.error_code == Code.ILLEGAL_SASL_STATE
        answer = await run.ask(SaslAuthenticateRequest(auth_bytes=b""), SaslAuthenticateResponse)
        assert answer.error_code == Code.ILLEGAL_SASL_STATE


async def test_on_a_listener_without_sasl_the_requests_are_illegal(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as run:
        handshake = await run.ask(SaslHandshakeRequest(mechanism=PLAIN), SaslHandshakeResponse)
        assert handshake.error_code == Code.ILLEGAL_SASL_STATE


async def test_tokens_without_a_header_are_read_after_an_old_handshake(tmp_path: Path) -> None:
    """Their frames may be shorter than any request."""
    settings = {
        **SETTINGS,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": "PlainLoginModule required"
        ' user_a="b";',
    }
    async with running_broker(tmp_path, settings) as run:
        await run.ask(SaslHandshakeRequest(mechanism=PLAIN), SaslHandshakeResponse, 0)
        run.wire.put(b"\0\0\0\x04\0a\0b")
        assert await run.wire.take() == b""
        await run.ask(METADATA, MetadataResponse)
        wire = run.connect()
        await run.ask(SaslHandshakeRequest(mechanism=PLAIN), SaslHandshakeResponse, 0, wire)
        wire.put(b"\0\0\0\x00")
        await refused(wire)


@pytest.mark.parametrize("size", [-1, 0, 7, 524_289, 2**31 - 1])
async def test_frames_of_other_sizes_close_the_connection(tmp_path: Path, size: int) -> None:
    async with running_broker(tmp_path, SETTINGS) as run:
        run.wire.put((size & 0xFFFFFFFF).to_bytes(4) + b"x" * max(0, min(size, 8)))
        await refused(run.wire)


async def test_after_the_login_large_requests_are_accepted(tmp_path: Path) -> None:
    settings = {**SETTINGS, "sasl.server.max.receive.size": "200"}
    async with running_broker(tmp_path, settings) as run:
        await log_in(run, run.wire, PLAIN)
        large = ApiVersionsRequest(client_software_name="t" * 500, client_software_version="1")
        await run.ask(large, ApiVersionsResponse)
        wire = run.connect()
        run.send(large, wire=wire)
        await refused(wire)


async def test_connections_that_do_not_log_in_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "LOGINS_MAX", 3)
    async with running_broker(tmp_path, SETTINGS) as run:
        await log_in(run, run.wire, PLAIN)
        wires = [run.connect() for _ in range(5)]
        assert [wire.closed for wire in wires] == [True, True, False, False, False]
        await run.ask(METADATA, MetadataResponse)


async def test_a_connection_that_does_not_log_in_in_time_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "LOGIN_S_MAX", 0.05)
    async with running_broker(tmp_path, SETTINGS) as run:
        wire = run.connect()
        await refused(wire)


# Sessions that end

EXPIRING = {**SETTINGS, "connections.max.reauth.ms": "60000"}


def make_older(run: Running, wire: Wire, ms: int) -> None:
    """As if the last login were that long ago."""
    (found,) = (each for each in run.broker.connections if each._stream is wire)
    session = found.login
    found.login = session._replace(
        began_at=session.began_at - ms, expires_at=session.expires_at - ms
    )


async def test_a_client_learns_for_how_long_its_login_is_valid(tmp_path: Path) -> None:
    async with running_broker(tmp_path, EXPIRING) as run:
        login = await log_in(run, run.wire, PLAIN)
        assert login.lifetime_ms == 60_000
        await run.ask(METADATA, MetadataResponse)


async def test_a_client_logs_in_again_on_its_connection(tmp_path: Path) -> None:
    async with running_broker(tmp_path, EXPIRING) as run:
        await log_in(run, run.wire, PLAIN)
        make_older(run, run.wire, 59_000)
        await log_in(run, run.wire, PLAIN)
        make_older(run, run.wire, 59_000)
        await run.ask(METADATA, MetadataResponse)
        make_older(run, run.wire, 30_000)  # also a little late
        await log_in(run, run.wire, PLAIN)
        await run.ask(METADATA, MetadataResponse)


async def test_a_client_may_not_log_in_again_within_a_second(tmp_path: Path) -> None:
    async with running_broker(tmp_path, EXPIRING) as run:
        await log_in(run, run.wire, PLAIN)
        answer = await run.ask(SaslHandshakeRequest(mechanism=PLAIN), SaslHandshakeResponse)
        assert answer.error_code == Code.ILLEGAL_SASL_STATE


async def test_an_expired_session_is_closed_at_its_next_request(tmp_path: Path) -> None:
    async with running_broker(tmp_path, EXPIRING) as run:
        await log_in(run, run.wire, PLAIN)
        make_older(run, run.wire, 60_500)
        run.send(METADATA)
        await refused(run.wire)
        assert "has expired" in run.log.getvalue()


@pytest.mark.parametrize(("user", "password"), [("bob", "brush"), ("alice", "wrong")])
async def test_who_logs_in_again_must_be_the_same(tmp_path: Path, user: str, password: str) -> None:
    async with running_broker(tmp_path, EXPIRING) as run:
        await log_in(run, run.wire, PLAIN)
        make_older(run, run.wire, 2_000)
        with pytest.raises(AuthenticationFailed):
            await log_in(run, run.wire, PLAIN, user, password)
        await refused(run.wire)


async def test_other_requests_during_a_new_login_close_the_connection(tmp_path: Path) -> None:
    async with running_broker(tmp_path, EXPIRING) as run:
        await log_in(run, run.wire, PLAIN)
        make_older(run, run.wire, 2_000)
        await run.ask(SaslHandshakeRequest(mechanism=PLAIN), SaslHandshakeResponse)
        run.send(METADATA)
        await refused(run.wire)


async def test_logins_are_logged_once_per_user_and_host(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SETTINGS) as run:
        for user, password in (("alice", PASSWORD), ("alice", PASSWORD), ("bob", "brush")):
            await log_in(run, run.connect(), PLAIN, user, password)
        lines = [json.loads(line) for line in run.log.getvalue().splitlines()]
        logged = [each["principal"] for each in lines if each["event"] == "logged in"]
        assert logged == ["User:alice", "User:bob"]


# Secrets and options


async def test_no_log_line_has_a_password(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SETTINGS, keeper_with({"alice": PASSWORD})) as run:
        await log_in(run, run.wire, PLAIN)
        for user in ("alice", "mallory"):
            with pytest.raises(KafkaError):
                await log_in(run, run.connect(), PLAIN, user, PASSWORD + "x")
        wire = run.connect()
        wire.put(request_frame(36, 2, 1, "t", SaslAuthenticateRequest(auth_bytes=b"canary-7f3a")))
        await refused(wire)
        lines = run.log.getvalue()
        assert "login failed" in lines
        assert "canary" not in lines
        assert all(json.loads(line) for line in lines.splitlines() if line.startswith("{"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms is empty"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "expected words"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": "canary"}, "expected: MODULE"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": ""}, "there are no users"),
        (
            {
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": "ScramLoginModule required"
                ' user_canary="x";'
            },
            "expected PlainLoginModule",
        ),
        ({"listeners": "SASL_PLAINTEXT://0.0.0.0:9092"}, "without encryption"),
    ],
)
async def test_a_broker_with_unusable_logins_does_not_start(
    tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    with pytest.raises(KafkaError, match=said) as problem:
        async with running_broker(tmp_path, {**SETTINGS, **settings}):
            pass
    assert "canary" not in str(problem.value)
