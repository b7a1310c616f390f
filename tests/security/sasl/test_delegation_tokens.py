"""Delegation tokens: times, owners and renewers, as Kafka has them."""

from collections.abc import Callable

import pytest

from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.principal import Principal
from barnabas.security.sasl.delegation_tokens import (
    DelegationToken,
    TokenLimits,
    by_hmac,
    expired,
    new_token,
    read_token,
    renewed,
    token_hmac,
    token_settings,
)

ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
LIMITS = TokenLimits(lifetime_ms_max=7_000, expiry_ms=1_000)


def token(lifetime_ms: int = -1) -> DelegationToken:
    return new_token("id", ALICE, ALICE, (BOB,), lifetime_ms, LIMITS, now_ms=100)


@pytest.mark.parametrize(
    ("lifetime_ms", "expires_ms", "max_ms"),
    [(-1, 1_100, 7_100), (0, 1_100, 7_100), (500, 600, 600), (99_999, 1_100, 7_100)],
)
def test_a_token_ends_as_asked_within_the_limits(
    lifetime_ms: int, expires_ms: int, max_ms: int
) -> None:
    made = token(lifetime_ms)
    assert (made.expires_ms, made.max_ms) == (expires_ms, max_ms)
    assert not made.is_over(expires_ms)
    assert made.is_over(expires_ms + 1)


@pytest.mark.parametrize("who", [ALICE, BOB])
def test_owner_and_renewers_renew_up_to_the_maximum(who: Principal) -> None:
    assert renewed(token(), who, -1, LIMITS, 500).expires_ms == 1_500
    assert renewed(token(), who, 200, LIMITS, 500).expires_ms == 700
    assert renewed(token(), who, 99_999, LIMITS, 500).expires_ms == 7_100
    assert expired(token(), who, -1, 500) is None
    assert expired(token(), who, -1, 99_999) is None
    changed = expired(token(), who, 100, 500)
    assert changed is not None
    assert changed.expires_ms == 600


def test_others_change_nothing_and_a_token_that_is_over_stays_so() -> None:
    attempts: list[tuple[Callable[[], object], Code]] = [
        (lambda: renewed(token(), CAROL, -1, LIMITS, 500), Code.DELEGATION_TOKEN_OWNER_MISMATCH),
        (lambda: expired(token(), CAROL, -1, 500), Code.DELEGATION_TOKEN_OWNER_MISMATCH),
        (lambda: renewed(token(), ALICE, -1, LIMITS, 1_101), Code.DELEGATION_TOKEN_EXPIRED),
        (lambda: expired(token(), ALICE, 5, 1_101), Code.DELEGATION_TOKEN_EXPIRED),
    ]
    for attempt, code in attempts:
        with pytest.raises(InvalidRequest) as refused:
            attempt()
        assert refused.value.code == code


def test_a_token_is_found_by_its_secret_alone() -> None:
    tokens = {"id": token()}
    assert by_hmac(tokens, "secret", token_hmac("secret", "id")) == token()
    for hmac in (b"", b"x", token_hmac("other", "id"), token_hmac("secret", "other")):
        with pytest.raises(InvalidRequest) as refused:
            by_hmac(tokens, "secret", hmac)
        assert refused.value.code == Code.DELEGATION_TOKEN_NOT_FOUND


def test_only_users_own_and_renew_tokens() -> None:
    group = Principal("Group", "admins")
    for owner, renewers in ((group, ()), (ALICE, (group,)), (ALICE, (Principal("User", ""),))):
        with pytest.raises(InvalidRequest) as refused:
            new_token("id", owner, ALICE, renewers, -1, LIMITS, 0)
        assert refused.value.code == Code.INVALID_PRINCIPAL_TYPE


def test_a_token_is_read_as_it_was_written() -> None:
    assert read_token("id", token_settings(token())) == token()
    assert read_token("id", {}) is None
    assert read_token("id", {**token_settings(token()), "maxTimestamp": "x"}) is None
