"""OAUTHBEARER on a running broker: keys from a file, new keys, and brokers that do not start."""

import time
from pathlib import Path

import pytest

from barnabas.broker.security import jwks as jwks_module
from barnabas.model.errors import Code, KafkaError
from barnabas.security.sasl.mechanism import OAUTHBEARER
from barnabas.security.sasl.oauthbearer import OAuthBearerClient
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.running import Running, Wire, running_broker
from tests.security.sasl.tokens import jwk, jwks, signed
from tests.waiting import eventually


def settings(directory: Path) -> dict[str, str]:
    file = directory / "keys.json"
    if not file.exists():
        file.write_bytes(jwks(jwk("RSA")))
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
        "sasl.enabled.mechanisms": OAUTHBEARER,
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{file}",
        "sasl.oauthbearer.expected.issuer": "https://id.example",
        "sasl.oauthbearer.expected.audience": "kafka",
        "connection.failed.authentication.delay.ms": "0",
    }


def token(kind: str = "RSA", lifetime_s: int = 300) -> str:
    now = int(time.time())
    return signed({"iat": now, "exp": now + lifetime_s}, kind=kind)


async def log_in(run: Running, wire: Wire, bearer: str) -> SaslAuthenticateResponse:
    await run.ask(SaslHandshakeRequest(mechanism=OAUTHBEARER), SaslHandshakeResponse, wire=wire)
    first = OAuthBearerClient(bearer).first()
    return await run.ask(
        SaslAuthenticateRequest(auth_bytes=first), SaslAuthenticateResponse, wire=wire
    )


async def test_a_token_logs_in_for_as_long_as_it_is_valid(tmp_path: Path) -> None:
    async with running_broker(tmp_path, settings(tmp_path)) as run:
        answer = await log_in(run, run.wire, token())
        assert answer.error_code == 0
        assert 290_000 < answer.session_lifetime_ms <= 300_000
        await run.ask(MetadataRequest(topics=[]), MetadataResponse)
        (connection,) = run.broker.connections
        assert str(connection.principal) == "User:alice"


async def test_a_bad_token_is_refused_in_two_steps(tmp_path: Path) -> None:
    async with running_broker(tmp_path, settings(tmp_path)) as run:
        answer = await log_in(run, run.wire, token("another"))
        assert answer.error_code == 0
        assert bytes(answer.auth_bytes) == b'{"status":"invalid_token"}'
        answer = await run.ask(
            SaslAuthenticateRequest(auth_bytes=b"\x01"), SaslAuthenticateResponse
        )
        assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED


async def test_a_new_key_is_found_after_a_token_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks_module, "AGAIN_MS_MIN", 0)
    async with running_broker(tmp_path, settings(tmp_path)) as run:
        (tmp_path / "keys.json").write_bytes(jwks(jwk("RSA"), jwk("another")))
        assert (await log_in(run, run.connect(), token("another"))).auth_bytes
        assert run.broker.logins is not None
        (keys,) = run.broker.logins._keys
        await eventually(lambda: "another" in keys._keys)
        assert not (await log_in(run, run.connect(), token("another"))).auth_bytes


async def test_keys_that_cannot_be_read_again_leave_the_ones_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks_module, "AGAIN_MS_MIN", 0)
    async with running_broker(tmp_path, settings(tmp_path)) as run:
        (tmp_path / "keys.json").write_bytes(b"{")
        await log_in(run, run.connect(), token("another"))
        await eventually(lambda: "identity provider not read" in run.log.getvalue())
        assert not (await log_in(run, run.connect(), token())).auth_bytes


async def test_a_flood_of_unknown_keys_reads_the_file_once_a_minute(tmp_path: Path) -> None:
    async with running_broker(tmp_path, settings(tmp_path)) as run:
        assert run.broker.logins is not None
        (keys,) = run.broker.logins._keys
        for number in range(50):
            keys._missing(f"key {number}")
        assert keys._reading is None
        keys._read_at -= 60_000
        for number in range(50):
            keys._missing(f"key {number}")
        assert keys._reading is not None
        assert len(keys._unknown) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": ""}, "requires sasl.oauthbearer.jwks.endpoint"),
        ({"sasl.oauthbearer.expected.issuer": ""}, "requires sasl.oauthbearer.expected.issuer"),
        ({"sasl.oauthbearer.expected.audience": ""}, "requires sasl.oauthbearer.expected.aud"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "http://id.example/keys"}, "expected file:"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "https://user:x@id.example/"}, "expected file:"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere/keys"}, "No such file"),
    ],
)
async def test_a_broker_that_could_not_check_tokens_does_not_start(
    tmp_path: Path, change: dict[str, str], said: str
) -> None:
    with pytest.raises(KafkaError, match=said):
        async with running_broker(tmp_path, {**settings(tmp_path), **change}):
            pass
