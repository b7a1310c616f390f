"""Rates in windows and the token bucket: Kafka's numbers, and what they add up to over time."""

import random

import pytest

from barnabas.security.quotas.usage import QuotaWindows, UsageBucket, UsageRate
from tests.share import SEED, examples

WINDOWS = QuotaWindows(11, 1000)
SECOND = 1000


def test_the_first_amounts_are_divided_by_all_windows_but_one() -> None:
    rate = UsageRate(WINDOWS)
    rate.record(1000, 0)
    assert rate.elapsed_ms(0) == 10 * SECOND
    assert rate.per_second(0) == 100
    assert rate.wait_ms(100, 0) == 0
    assert rate.wait_ms(50, 0) == 10 * SECOND


def test_nothing_recorded_is_no_rate() -> None:
    rate = UsageRate(WINDOWS)
    assert rate.per_second(5) == 0
    assert rate.wait_ms(1, 5) == 0


def test_amounts_older_than_all_windows_are_forgotten() -> None:
    rate = UsageRate(WINDOWS)
    rate.record(1000, 0)
    rate.record(10, 5 * SECOND)
    assert rate.total(11 * SECOND - 1) == 1010
    assert rate.total(11 * SECOND) == 10
    assert rate.total(16 * SECOND) == 0


def test_what_was_not_used_is_taken_back() -> None:
    rate = UsageRate(WINDOWS)
    rate.record(500, 0)
    rate.record(700, 10)
    rate.record(-700, 10)
    assert rate.total(10) == 500


def test_a_rate_keeps_one_sample_more_than_there_are_windows() -> None:
    rate = UsageRate(QuotaWindows(3, 1000))
    for second in range(100):
        rate.record(1, second * SECOND)
    assert len(rate._samples) == 4


@pytest.mark.parametrize("seed", range(examples(20)))
def test_a_client_that_waits_as_told_uses_its_limit_and_no_more(seed: int) -> None:
    """After the burst of the first windows: within 10% over a long time, whatever it sends."""
    chance = random.Random(SEED * 1000 + seed)
    windows = QuotaWindows(chance.randrange(2, 20), 1000)
    limit = chance.uniform(10, 1e7)
    largest = limit * windows.seconds / 4
    rate, now_ms, sent = UsageRate(windows), 0, 0.0
    began_ms, began_sent = 0, 0.0
    while now_ms < 600 * SECOND:
        amount = chance.uniform(0, largest)
        rate.record(amount, now_ms)
        sent += amount
        now_ms += rate.wait_ms(limit, now_ms) + chance.randrange(0, 20)
        if not began_ms and now_ms > 3 * windows.seconds * 1000:
            began_ms, began_sent = now_ms, sent
    average = (sent - began_sent) * 1000 / (now_ms - began_ms)
    assert average <= limit * 1.1
    assert average >= limit * 0.8


def test_a_bucket_begins_full_and_holds_no_more_than_all_windows() -> None:
    bucket = UsageBucket(WINDOWS)
    assert bucket.tokens(2.0, 0) == 22
    assert bucket.tokens(2.0, 3600 * SECOND) == 22


def test_a_request_may_owe_tokens_and_the_next_one_waits() -> None:
    bucket = UsageBucket(WINDOWS)
    bucket.take(32, 2.0, 0)
    assert bucket.tokens(2.0, 0) == -10
    assert bucket.wait_ms(2.0, 0) == 5 * SECOND
    assert bucket.wait_ms(2.0, 4 * SECOND) == SECOND
    assert bucket.wait_ms(2.0, 5 * SECOND) == 0


@pytest.mark.parametrize("seed", range(examples(20)))
def test_a_bucket_never_gives_more_than_its_rate_and_one_burst(seed: int) -> None:
    chance = random.Random(SEED * 1000 + seed)
    bucket, limit, taken, now_ms, largest = UsageBucket(WINDOWS), 3.0, 0, 0, 50
    for _ in range(500):
        now_ms += chance.randrange(0, 5 * SECOND)
        if bucket.wait_ms(limit, now_ms) == 0:
            amount = chance.randrange(0, largest)
            bucket.take(amount, limit, now_ms)
            taken += amount
        assert taken <= limit * (now_ms / 1000 + WINDOWS.seconds) + largest
