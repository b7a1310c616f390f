"""The time of a failed login does not tell whether the user exists, or how much was right."""

import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median

import pytest

from barnabas.security.sasl.mechanism import LoginFailed
from barnabas.security.sasl.plain import PlainServer, password_check

LOGINS, ROUNDS = 1_000, 5
RATIO_MAX = 1.25  # a comparison that ends at the first difference, or not at all, is above 2
PASSWORD = "p" * 64

check = password_check({"alice": PASSWORD})


def naive_check(user: str, password: str) -> bool:
    """What must not be: work that depends on the user."""
    return user == "alice" and password_check({user: PASSWORD})(user, password)


def ratio(check: Callable[[str, str], bool], tokens: tuple[bytes, bytes]) -> float:
    """How much longer the slower of two takes; the best of some rounds, as others use the machine
    too."""
    return min(_ratio(check, tokens) for _ in range(ROUNDS))


def _ratio(check: Callable[[str, str], bool], tokens: tuple[bytes, bytes]) -> float:
    took: tuple[list[int], list[int]] = ([], [])
    for _ in range(LOGINS):
        for token, times in zip(tokens, took, strict=True):
            server = PlainServer(check)
            began = time.perf_counter_ns()
            with suppress(LoginFailed):
                server.respond(token)
            times.append(time.perf_counter_ns() - began)
    one, other = (float(median(times)) for times in took)
    return max(one / other, other / one)


WRONG = b"\0alice\0" + b"x" * 64
UNKNOWN = b"\0carol\0" + b"x" * 64
ALMOST = b"\0alice\0" + b"p" * 63 + b"x"


@pytest.mark.parametrize("other", [UNKNOWN, ALMOST], ids=["unknown user", "almost right"])
def test_a_failed_login_takes_as_long_whatever_was_wrong(other: bytes) -> None:
    assert ratio(check, (WRONG, other)) < RATIO_MAX


def test_the_comparison_finds_a_check_that_depends_on_the_user() -> None:
    assert ratio(naive_check, (WRONG, UNKNOWN)) > RATIO_MAX
