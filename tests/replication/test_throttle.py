"""Bytes a second of replicas that catch up."""

from barnabas.replication.throttle import Throttle


def test_a_second_of_bytes_goes_at_once_and_then_as_fast_as_the_rate() -> None:
    throttle = Throttle(1000, now=0)
    throttle.took(900, now=0)
    assert throttle.wait_ms(0) == 0
    throttle.took(900, now=0)
    assert 800 <= throttle.wait_ms(0) <= 802
    assert throttle.wait_ms(801) == 0


def test_nothing_is_saved_up_for_longer_than_a_second() -> None:
    throttle = Throttle(1000, now=0)
    throttle.took(2000, now=60_000)
    assert throttle.wait_ms(60_000) > 1000 - 5


def test_a_rate_of_nothing_stops_and_a_new_rate_goes_on() -> None:
    throttle = Throttle(0, now=0)
    assert throttle.wait_ms(1_000_000) > 0
    throttle.set_rate(1000, now=1_000_000)
    assert throttle.wait_ms(1_000_100) == 0
