"""Tokens of an identity provider: which are valid, and how others are forged."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from barnabas.security.sasl.jwt_validation import (
    KEYS_MAX,
    TokenRules,
    UnknownKey,
    read_jwks,
    validate_token,
)
from barnabas.security.sasl.mechanism import LoginFailed, SaslIdentity
from barnabas.security.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer
from tests.security.sasl.tokens import CLAIMS, NOW_S, jwk, jwks, private_key, signed

RULES = TokenRules("https://id.example", frozenset({"kafka"}))
KEYS = read_jwks(jwks(jwk("RSA"), jwk("EC"), jwk("OKP")))
NOW_MS = NOW_S * 1000


def validate(token: str) -> SaslIdentity:
    return validate_token(token, KEYS, RULES, NOW_MS)


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [("RSA", "RS256"), ("RSA", "RS512"), ("RSA", "PS256"), ("EC", "ES256"), ("OKP", "EdDSA")],
)
def test_a_signed_token_names_its_user(kind: str, algorithm: str) -> None:
    token = signed(kind=kind, algorithm=algorithm)
    assert validate(token) == SaslIdentity("alice", (NOW_S + 300) * 1000)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - 31}, {"exp": True}, {"exp": "9999999999"}, {"exp": None},
        {"exp": float("inf")}, {"exp": float("nan")}, {"exp": -1}, {"exp": 1e300},
        {"iat": NOW_S + 31}, {"iat": NOW_S + 301, "exp": NOW_S + 300}, {"nbf": NOW_S + 31},
        {"nbf": "x"}, {"iss": "https://other.example"}, {"iss": None}, {"aud": "other"},
        {"aud": []}, {"aud": None}, {"aud": {"kafka": 1}}, {"sub": ""}, {"sub": " "},
        {"sub": 7}, {"sub": "x" * 1_001}, {"scope": 7},
    ],
)  # fmt: skip
def test_a_token_that_says_something_else_is_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(LoginFailed):
        validate(signed(claims))


@pytest.mark.parametrize("name", ["exp", "iat", "sub", "iss", "aud"])
def test_a_token_without_a_required_claim_is_refused(name: str) -> None:
    with pytest.raises(LoginFailed):
        validate(signed(without=name))


@pytest.mark.parametrize(
    "claims",
    [{"exp": NOW_S - 29, "iat": 1}, {"exp": NOW_S + 0.5}, {"aud": "kafka"}, {"scope": ["a"]}],
)
def test_clocks_may_differ_and_times_may_have_fractions(claims: dict[str, Any]) -> None:
    assert validate(signed(claims)).user == "alice"


def part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header: dict[str, Any], signature: bytes = b"") -> str:
    head = part(json.dumps(header).encode()) + "." + part(json.dumps(CLAIMS).encode())
    return f"{head}.{part(signature)}"


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None])
def test_a_token_without_a_signature_is_refused(algorithm: str | None) -> None:
    with pytest.raises(LoginFailed):
        validate(forged({"alg": algorithm, "kid": "RSA"}))


def test_a_public_key_is_no_shared_secret() -> None:
    """HS256 with the public key, which anybody has, as the secret."""
    public = private_key("RSA").public_key()
    secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = part(json.dumps({"alg": "HS256", "kid": "RSA"}).encode())
    body = part(json.dumps(CLAIMS).encode())
    mac = hmac.digest(secret, f"{head}.{body}".encode(), hashlib.sha256)
    with pytest.raises(LoginFailed, match="is not its key's"):
        validate(f"{head}.{body}.{part(mac)}")


@pytest.mark.parametrize("kind", ["EC", "OKP"])
def test_an_algorithm_for_another_kind_of_key_is_refused(kind: str) -> None:
    with pytest.raises(LoginFailed):
        validate(signed(headers={"kid": kind}))


def test_a_signature_of_another_key_is_refused() -> None:
    with pytest.raises(LoginFailed, match="signature"):
        validate(signed(kind="another", headers={"kid": "RSA"}))


def test_keys_that_a_token_brings_along_are_ignored() -> None:
    own = {"jwk": jwk("another"), "jku": "https://evil.example/keys", "x5u": "https://evil"}
    with pytest.raises(LoginFailed, match="signature"):
        validate(signed(kind="another", headers={**own, "kid": "RSA"}))
    assert validate(signed(headers=own)).user == "alice"


def test_critical_headers_are_refused() -> None:
    with pytest.raises(LoginFailed):
        validate(signed(headers={"crit": ["exp"], "exp": 1}))


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(UnknownKey) as unknown:
        validate(signed(headers={"kid": "new"}))
    assert unknown.value.kid == "new"


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "a.b.c", "e30.e30.", "[]", forged([]), forged({"alg": "RS256", "kid": 7})],  # type: ignore[arg-type]
)
def test_other_texts_are_refused(token: str) -> None:
    with pytest.raises(LoginFailed):
        validate(token)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"{}", b'{"keys": 7}', b'{"keys": []}', b'{"keys": [7, {}]}', b"x" * (2 << 20),
        jwks({"kty": "oct", "kid": "a", "k": "c2VjcmV0"}), jwks(jwk("RSA", use="enc")),
        jwks(jwk("weak")), jwks(jwk("RSA", alg="HS256")), jwks({**jwk("RSA"), "kid": None}),
        jwks({"kty": "RSA", "kid": "a"}), jwks(*[jwk("RSA")] * (KEYS_MAX + 1)),
        b'{"keys":' + b"[" * 100_000,
    ],
)  # fmt: skip
def test_keys_that_can_verify_nothing_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"expected|no key|JWKS"):
        read_jwks(text)


def test_a_key_for_one_algorithm_is_used_for_no_other() -> None:
    keys = read_jwks(jwks(jwk("RSA", alg="PS256")))
    with pytest.raises(LoginFailed):
        validate_token(signed(), keys, RULES, NOW_MS)
    assert validate_token(signed(algorithm="PS256"), keys, RULES, NOW_MS).user == "alice"


# The exchange


def test_a_valid_token_logs_in() -> None:
    server, client = OAuthBearerServer(validate), OAuthBearerClient(signed())
    assert client.respond(server.respond(client.first())) is None
    assert client.done
    assert server.identity == SaslIdentity("alice", (NOW_S + 300) * 1000)


def test_a_refused_token_gets_a_text_and_then_the_failure() -> None:
    server, client = OAuthBearerServer(validate), OAuthBearerClient(signed({"sub": ""}))
    reply = server.respond(client.first())
    assert json.loads(reply) == {"status": "invalid_token"}
    confirmation = client.respond(reply)
    assert confirmation == b"\x01"
    with pytest.raises(LoginFailed):
        server.respond(confirmation)
    assert server.identity is None


def test_a_second_token_after_a_refused_one_is_not_looked_at() -> None:
    server = OAuthBearerServer(validate)
    server.respond(OAuthBearerClient(signed({"sub": ""})).first())
    with pytest.raises(LoginFailed):
        server.respond(OAuthBearerClient(signed()).first())


@pytest.mark.parametrize(
    "message",
    [
        b"", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"n,,\x01auth=Bearer \x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01", b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"n,,auth=Bearer x\x01\x01", b"n,,\x01auth=Bearer x\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)  # fmt: skip
def test_other_first_messages_are_refused(message: bytes) -> None:
    with pytest.raises(LoginFailed):
        OAuthBearerServer(validate).respond(message)


def test_a_client_may_not_ask_to_be_another() -> None:
    token = signed()
    message = f"n,a=admin,\x01auth=Bearer {token}\x01\x01".encode()
    with pytest.raises(LoginFailed, match="requests to act as"):
        OAuthBearerServer(validate).respond(message)
    server = OAuthBearerServer(validate)
    assert server.respond(message.replace(b"a=admin", b"a=alice")) == b""


def test_extensions_of_a_client_are_ignored() -> None:
    server = OAuthBearerServer(validate)
    server.respond(f"n,,\x01auth=Bearer {signed()}\x01trace=7\x01\x01".encode())
    assert server.identity is not None
