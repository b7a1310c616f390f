"""Time that a test advances."""

import pytest

from barnabas.testing import Kafka, TestClock
from tests.testing.test_kafka import is_stable, reading


def test_retention_of_a_day_takes_no_day(kafka: Kafka) -> None:
    kafka.create_topic("orders", configs={"retention.ms": 3_600_000, "segment.ms": 60_000})
    kafka.produce("orders", [b"old"])
    kafka.clock.advance(hours=25)
    kafka.produce("orders", [b"new"], timestamp=kafka.clock.wall_ms())
    kafka.clock.advance(minutes=10)
    kafka.wait_until(lambda: kafka.values("orders") == [b"new"])


def test_a_session_times_out_at_once(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    with reading(kafka, "billing", "one", group_protocol="classic", session_timeout_ms="45000"):
        kafka.wait_until(lambda: is_stable(kafka, "billing", 1))
        kafka.clock.advance(seconds=46)
        kafka.wait_until(
            lambda: any(
                "LATE_HEARTBEAT" in each.kinds for each in kafka.rebalance_history("billing")
            )
        )


@pytest.mark.kafka(clock="manual")
def test_a_manual_clock_stands_still(kafka: Kafka) -> None:
    before = kafka.clock.wall_ms()
    kafka.create_topic("orders")
    kafka.produce("orders", [b"1"])
    assert kafka.clock.wall_ms() == before
    kafka.clock.advance(1, minutes=1, milliseconds=5)
    assert kafka.clock.wall_ms() == before + 61_005
    assert kafka.values("orders") == [b"1"]


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        TestClock().advance(-1)
