"""Delegation tokens: secrets with which others may act for their owner, for a limited time.

In: who asks for what, the time. Out: a token to store, or the error.
Always: a token is never valid after its end, nor its end after its maximum. The secret of a token
(its HMAC) is computed from its id and the secret of the cluster: it is not stored.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from hmac import compare_digest, digest
from typing import NamedTuple

from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.principal import USER, Principal

RENEWERS_MAX = 100


class DelegationToken(NamedTuple):
    """Times are in wall-clock milliseconds."""

    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def is_over(self, now_ms: int) -> bool:
        return min(self.expires_ms, self.max_ms) < now_ms

    def may_change(self, principal: Principal) -> bool:
        return principal in (self.owner, self.requester, *self.renewers)


class TokenLimits(NamedTuple):
    lifetime_ms_max: int
    expiry_ms: int


def token_hmac(secret: str, id_: str) -> bytes:
    return digest(secret.encode(), id_.encode(), "sha512")


def token_password(hmac: bytes) -> str:
    """The password of SCRAM for a token."""
    return b64encode(hmac).decode()


def new_token(
    id_: str,
    owner: Principal,
    requester: Principal,
    renewers: tuple[Principal, ...],
    lifetime_ms: int,
    limits: TokenLimits,
    now_ms: int,
) -> DelegationToken:
    for each in (owner, *renewers):
        if each.type != USER or not each.name:
            raise InvalidRequest(
                Code.INVALID_PRINCIPAL_TYPE, f"principal {str(each)!r:.100}: expected User:NAME"
            )
    if len(renewers) > RENEWERS_MAX:
        raise InvalidRequest(
            Code.INVALID_REQUEST, f"{len(renewers)} renewers, {RENEWERS_MAX} at most"
        )
    longest = limits.lifetime_ms_max
    max_ms = now_ms + (min(longest, lifetime_ms) if lifetime_ms > 0 else longest)
    expires_ms = min(max_ms, now_ms + limits.expiry_ms)
    return DelegationToken(id_, owner, requester, renewers, now_ms, expires_ms, max_ms)


def renewed(
    token: DelegationToken, by: Principal, period_ms: int, limits: TokenLimits, now_ms: int
) -> DelegationToken:
    _check(token, by, now_ms)
    period_ms = limits.expiry_ms if period_ms < 0 else period_ms
    return token._replace(expires_ms=min(token.max_ms, now_ms + period_ms))


def expired(
    token: DelegationToken, by: Principal, period_ms: int, now_ms: int
) -> DelegationToken | None:
    """None: the token is deleted."""
    if period_ms < 0:
        _check_owner(token, by)
        return None
    _check(token, by, now_ms)
    return token._replace(expires_ms=min(token.max_ms, now_ms + period_ms))


def _check(token: DelegationToken, by: Principal, now_ms: int) -> None:
    if token.is_over(now_ms):
        raise InvalidRequest(Code.DELEGATION_TOKEN_EXPIRED)
    _check_owner(token, by)


def _check_owner(token: DelegationToken, by: Principal) -> None:
    if not token.may_change(by):
        raise InvalidRequest(Code.DELEGATION_TOKEN_OWNER_MISMATCH)


def by_hmac(tokens: Mapping[str, DelegationToken], secret: str, hmac: bytes) -> DelegationToken:
    """The token with this secret."""
    for token in tokens.values():
        if compare_digest(token_hmac(secret, token.id), hmac):
            return token
    raise InvalidRequest(Code.DELEGATION_TOKEN_NOT_FOUND)


def token_settings(token: DelegationToken) -> dict[str, str]:
    """For the keeper, as a map of texts."""
    return {
        "owner": token.owner.name,
        "requester": token.requester.name,
        "renewers": json.dumps([each.name for each in token.renewers]),
        "issueTimestamp": str(token.issued_ms),
        "expiryTimestamp": str(token.expires_ms),
        "maxTimestamp": str(token.max_ms),
    }


def read_token(id_: str, settings: Mapping[str, str]) -> DelegationToken | None:
    """None: it was deleted, or cannot be read."""
    try:
        return DelegationToken(
            id_,
            Principal(USER, settings["owner"]),
            Principal(USER, settings["requester"]),
            tuple(Principal(USER, str(each)) for each in json.loads(settings["renewers"])),
            int(settings["issueTimestamp"]),
            int(settings["expiryTimestamp"]),
            int(settings["maxTimestamp"]),
        )
    except (KeyError, ValueError, TypeError):
        return None
