"""Keys of an identity provider over https: what is accepted, and what stops the broker's start."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from barnabas.broker.security import jwks as jwks_module
from barnabas.model.errors import KafkaError
from barnabas.security.sasl.jwt_validation import JWKS_LENGTH_MAX
from tests.broker.running import running_broker
from tests.broker.security.test_jwks import log_in, settings, token
from tests.security.sasl.tokens import jwk, jwks
from tests.support.certificates import Pki, new_pki
from tests.waiting import eventually


class Provider:
    """An https server of one page, on a thread."""

    def __init__(self, pki: Pki) -> None:
        self.status = 200
        self.keys = jwks(jwk("RSA"))
        self.asked: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                self.send_response(provider.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(provider.keys)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                pass  # a client that refuses the certificate

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki.path("server.pem"))
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def url(self, host: str = "localhost") -> str:
        return f"https://{host}:{self._server.server_port}/keys?of=kafka"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return new_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def provider(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Its authority is one that the broker trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", pki.path("ca.pem"))
    running = Provider(pki)
    yield running
    running.close()


def options(tmp_path: Path, url: str) -> dict[str, str]:
    return {**settings(tmp_path), "sasl.oauthbearer.jwks.endpoint.url": url}


async def test_a_token_is_checked_with_the_keys_of_the_provider(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks_module, "AGAIN_MS_MIN", 0)
    async with running_broker(tmp_path, options(tmp_path, provider.url())) as run:
        assert not (await log_in(run, run.connect(), token())).auth_bytes
        assert (await log_in(run, run.connect(), token("another"))).auth_bytes
        provider.keys = jwks(jwk("RSA"), jwk("another"))
        assert run.broker.logins is not None
        (keys,) = run.broker.logins._keys
        await log_in(run, run.connect(), token("another"))
        await eventually(lambda: "another" in keys._keys)
        assert not (await log_in(run, run.connect(), token("another"))).auth_bytes
    assert set(provider.asked) == {"/keys?of=kafka"}


async def test_a_provider_that_fails_later_leaves_the_keys_of_before(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks_module, "AGAIN_MS_MIN", 0)
    async with running_broker(tmp_path, options(tmp_path, provider.url())) as run:
        provider.status = 500
        await log_in(run, run.connect(), token("another"))
        await eventually(lambda: "answered with HTTP 500" in run.log.getvalue())
        assert not (await log_in(run, run.connect(), token())).auth_bytes


async def refused(tmp_path: Path, url: str, reason: str) -> None:
    tmp_path.mkdir(exist_ok=True)
    with pytest.raises(KafkaError, match=reason):
        async with running_broker(tmp_path, options(tmp_path, url)):
            pass


async def test_a_redirect_is_not_followed(tmp_path: Path, provider: Provider) -> None:
    provider.status = 302
    await refused(tmp_path, provider.url(), "answered with HTTP 302")
    assert provider.asked == ["/keys?of=kafka"]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (b"{", "expected a JWKS"),
        (b'{"keys": []}', "no key in it has an id"),
        (b" " * (JWKS_LENGTH_MAX + 1), "at most"),
    ],
    ids=["no JSON", "no keys", "too long"],
)
async def test_a_broker_does_not_start_without_good_keys(
    tmp_path: Path, provider: Provider, keys: bytes, reason: str
) -> None:
    provider.keys = keys
    await refused(tmp_path, provider.url(), reason)


async def test_a_provider_with_another_name_is_refused(
    tmp_path: Path, provider: Provider, pki: Pki
) -> None:
    elsewhere = Pki(tmp_path)
    Path(pki.server("elsewhere", "elsewhere.example")).rename(elsewhere.path("server.pem"))
    other = Provider(elsewhere)
    try:
        await refused(tmp_path / "data", other.url(), "certificate verify failed: Hostname")
    finally:
        other.close()
    assert not other.asked


async def test_a_provider_of_another_authority_is_refused(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = new_pki(tmp_path / "pki")
    monkeypatch.setenv("SSL_CERT_FILE", other.path("ca.pem"))
    await refused(tmp_path / "data", provider.url(), "certificate verify failed")
    assert not provider.asked
