"""Whether a token of an identity provider (a signed JWT) is valid, and whose it is.

In: a token, the provider's keys (JWKS), what a token must say, the time. Out: the user, or
LoginFailed.
Always: a token without a signature by one of these keys is never valid. The algorithm must be one
that the key is for: a shared secret, or "none", is not possible. Nothing that a token names is
fetched.
Not here: reading the keys (broker/security/jwks.py).
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from jwt import PyJWK, PyJWS
from jwt.exceptions import PyJWTError

from barnabas.security.sasl.mechanism import LoginFailed, SaslIdentity

ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
_BY_CURVE = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
RSA_BITS_MIN = 2_048
JWKS_LENGTH_MAX = 1 << 20
KEYS_MAX = 100
USER_LENGTH_MAX = 1_000
_KID_LENGTH_MAX = 300
_WALL_S_MAX = 253_402_300_799  # the end of the year 9999
_JWS = PyJWS()


class JwtKey(NamedTuple):
    """One key of the provider, and the algorithms for which it may be used."""

    key: Any
    algorithms: tuple[str, ...]


class TokenRules(NamedTuple):
    """What a token must say."""

    issuer: str
    audiences: frozenset[str]
    skew_s: int = 30
    user_claim: str = "sub"
    scope_claim: str = "scope"


class UnknownKey(LoginFailed):
    """The token names a key that is not there, or not yet."""

    def __init__(self, kid: str) -> None:
        super().__init__(f"no key {kid!r:.100} of the identity provider")
        self.kid = kid


def read_jwks(text: bytes) -> dict[str, JwtKey]:
    """The keys by their ids. ValueError if there is none that can verify a signature."""
    if len(text) > JWKS_LENGTH_MAX:
        raise ValueError(f"JWKS of {len(text)} bytes, {JWKS_LENGTH_MAX} at most")
    try:
        entries = json.loads(text)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError('expected a JWKS: {"keys": [...]}') from None
    if not isinstance(entries, list) or len(entries) > KEYS_MAX:
        raise ValueError(f"expected at most {KEYS_MAX} keys")
    found: dict[str, JwtKey] = {}
    for entry in entries:
        if isinstance(entry, dict) and (key := _key(entry)) is not None:
            found[entry["kid"]] = key
    if not found:
        raise ValueError("no key in it has an id (kid) and can verify signatures (RSA, EC, OKP)")
    return found


def _key(entry: dict[str, Any]) -> JwtKey | None:
    """None: it is for something else, such as encryption, or not usable here."""
    kid, kind = entry.get("kid"), entry.get("kty")
    if not isinstance(kid, str) or not isinstance(kind, str) or kind not in ALGORITHMS:
        return None
    if entry.get("use", "sig") != "sig":
        return None
    algorithms = ALGORITHMS[kind]
    if kind == "EC":
        algorithms = tuple(name for name in algorithms if name == _BY_CURVE.get(entry.get("crv")))  # type: ignore[arg-type]
    said = entry.get("alg")
    if said is not None:
        algorithms = tuple(name for name in algorithms if name == said)
    if not algorithms:
        return None
    try:
        key = PyJWK(entry, algorithms[0]).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if hasattr(key, "private_numbers") or hasattr(key, "private_bytes"):
        key = key.public_key()
    if kind == "RSA" and key.key_size < RSA_BITS_MIN:
        return None
    return JwtKey(key, algorithms)


def validate_token(
    token: str, keys: Mapping[str, JwtKey], rules: TokenRules, wall_ms: int
) -> SaslIdentity:
    """LoginFailed says why the token is not valid."""
    header = _header(token)
    if "crit" in header:
        raise LoginFailed("the token has critical headers, which are not supported")
    kid = header.get("kid")
    if not isinstance(kid, str) or len(kid) > _KID_LENGTH_MAX:
        raise LoginFailed("the token names no key (kid)")
    key = keys.get(kid)
    if key is None:
        raise UnknownKey(kid)
    if header.get("alg") not in key.algorithms:
        raise LoginFailed(f"the token's algorithm {header.get('alg')!r:.100} is not its key's")
    try:
        payload = _JWS.decode(token, key.key, algorithms=[header["alg"]])
        claims = json.loads(payload)
    except (PyJWTError, ValueError, TypeError, AttributeError, RecursionError):
        raise LoginFailed("the token's signature is not valid") from None
    if not isinstance(claims, dict):
        raise LoginFailed("the token has no claims")
    return _identity(claims, rules, wall_ms)


def _header(token: str) -> dict[str, Any]:
    from jwt import get_unverified_header

    try:
        return get_unverified_header(token)
    except (PyJWTError, ValueError, TypeError, RecursionError):
        raise LoginFailed("not a token that is signed (JWS)") from None


def _identity(claims: dict[str, Any], rules: TokenRules, wall_ms: int) -> SaslIdentity:
    now_s = wall_ms / 1000
    expires, issued = _time(claims, "exp"), _time(claims, "iat")
    if expires + rules.skew_s <= now_s:
        raise LoginFailed("the token has expired")
    if issued > now_s + rules.skew_s or issued > expires:
        raise LoginFailed("the token was issued in the future, or after its end")
    if "nbf" in claims and _time(claims, "nbf") > now_s + rules.skew_s:
        raise LoginFailed("the token is not valid yet")
    if claims.get("iss") != rules.issuer:
        raise LoginFailed(f"the token's issuer is {claims.get('iss')!r:.100}")
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or not any(
        isinstance(each, str) and each in rules.audiences for each in audiences
    ):
        raise LoginFailed(f"the token's audience is {audience!r:.100}")
    scope = claims.get(rules.scope_claim, "")
    if not isinstance(scope, str | list):
        raise LoginFailed(f"the token's claim {rules.scope_claim!r} is neither text nor a list")
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user.strip() or len(user) > USER_LENGTH_MAX:
        raise LoginFailed(f"the token's claim {rules.user_claim!r} names no user")
    return SaslIdentity(user, int(expires * 1000))


def _time(claims: dict[str, Any], name: str) -> float:
    """In seconds; a fraction is allowed."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LoginFailed(f"the token's claim {name!r} is not a time")
    if not math.isfinite(value) or not 0 <= value <= _WALL_S_MAX:
        raise LoginFailed(f"the token's claim {name!r} is not a time")
    return float(value)
