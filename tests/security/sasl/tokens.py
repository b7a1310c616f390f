"""Keys of an identity provider, and tokens that it signs."""

import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NOW_S = 1_800_000_000
CLAIMS: dict[str, Any] = {
    "iss": "https://id.example",
    "aud": ["kafka", "other"],
    "sub": "alice",
    "iat": NOW_S - 10,
    "exp": NOW_S + 300,
}


@cache
def private_key(kind: str) -> Any:
    if kind == "weak":
        return rsa.generate_private_key(65_537, 1024)
    if kind == "EC":
        return ec.generate_private_key(ec.SECP256R1())
    if kind == "OKP":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65_537, 2048)  # "RSA", and others of the kind


def jwk(kind: str, **more: Any) -> dict[str, Any]:
    algorithm: Any = {"EC": ECAlgorithm, "OKP": OKPAlgorithm}.get(kind, RSAAlgorithm)
    fields: dict[str, Any] = algorithm.to_jwk(private_key(kind).public_key(), as_dict=True)
    return {"kid": kind, "use": "sig", **fields, **more}


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


def signed(
    claims: dict[str, Any] | None = None,
    *,
    kind: str = "RSA",
    algorithm: str = "RS256",
    headers: dict[str, Any] | None = None,
    without: str = "",
) -> str:
    full = {**CLAIMS, **(claims or {})}
    full.pop(without, None)
    payload = json.dumps(full).encode()
    given = {"kid": kind, **(headers or {})}
    return jwt.PyJWS().encode(payload, private_key(kind), algorithm, headers=given)
