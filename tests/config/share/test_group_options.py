"""Options of share groups, and their bounds."""

import pytest

from barnabas.config.group import GroupConfig, check_bounds
from barnabas.config.resolve import Layers
from barnabas.config.share.group_options import duration_ms
from barnabas.model.errors import Code, InvalidRequest


def test_a_group_has_the_broker_s_setting_unless_it_has_its_own() -> None:
    layers = Layers({"group.share.record.lock.duration.ms": "20000"})
    assert GroupConfig({}, layers).share_record_lock_duration_ms == 20_000
    own = GroupConfig({"share.record.lock.duration.ms": "40000"}, layers)
    assert own.share_record_lock_duration_ms == 40_000


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("share.record.lock.duration.ms", 15_000, 60_000),
        ("share.delivery.count.limit", 2, 10),
        ("share.partition.max.record.locks", 100, 4_000),
        ("share.session.timeout.ms", 45_000, 60_000),
        ("share.heartbeat.interval.ms", 5_000, 15_000),
        ("share.assignment.interval.ms", 0, 15_000),
    ],
)
def test_a_setting_outside_of_the_broker_s_bounds_is_refused(
    name: str, least: int, most: int
) -> None:
    check_bounds({name: str(least)}, Layers())
    check_bounds({name: str(most)}, Layers())
    for value in (least - 1, most + 1):
        with pytest.raises(InvalidRequest) as refused:
            check_bounds({name: str(value)}, Layers())
        assert refused.value.code is Code.INVALID_CONFIG
        assert name in refused.value.detail


def test_a_broker_may_allow_shorter_locks() -> None:
    layers = Layers({"group.share.min.record.lock.duration.ms": "1000"})
    check_bounds({"share.record.lock.duration.ms": "1000"}, layers)


def test_a_heartbeat_interval_is_shorter_than_the_session_timeout() -> None:
    layers = Layers({"group.share.min.session.timeout.ms": "6000"})
    with pytest.raises(InvalidRequest, match="less than"):
        check_bounds(
            {"share.session.timeout.ms": "6000", "share.heartbeat.interval.ms": "6000"}, layers
        )


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P1DT2H3M4.5S", 93_784_500),
        ("by_duration:PT0S", 0),
        ("latest", None),
    ],
)
def test_a_duration_is_read_as_java_writes_it(text: str, duration: int | None) -> None:
    assert duration_ms(text) == duration
    assert GroupConfig({"share.auto.offset.reset": text}).share_auto_offset_reset == text


@pytest.mark.parametrize(
    "text",
    ["", "none", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1h",
     "by_duration:-PT1H", "by_duration:PT-1H", "by_duration:P99999999999999D"],
)  # fmt: skip
def test_a_strategy_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        GroupConfig({"share.auto.offset.reset": text})
