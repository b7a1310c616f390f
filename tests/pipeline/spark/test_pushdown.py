"""Filters make less to read, and never leave out what passes."""

import operator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.spark.offsets import OffsetRange
from barnabas.pipeline.spark.pushdown import narrow


@dataclass
class Filter:
    """As Spark's, which are told apart by the names of their classes."""

    attribute: tuple[str, ...]
    value: Any


COMPARE = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}


def made(kind: str, column: str, value: Any) -> Any:
    return type(kind, (Filter,), {})((column,), value)


NUMBERS = st.builds(
    made,
    st.sampled_from(list(COMPARE)),
    st.sampled_from(["partition", "offset"]),
    st.integers(0, 9),
)
LISTS = st.builds(
    made,
    st.just("In"),
    st.sampled_from(["partition", "offset"]),
    st.lists(st.integers(0, 9), max_size=3).map(tuple),
)


def passes(filters: list[Any], row: dict[str, int]) -> bool:
    for each in filters:
        value = row[each.attribute[0]]
        kind = type(each).__name__
        if not (value in each.value if kind == "In" else COMPARE[kind](value, each.value)):
            return False
    return True


@given(st.lists(NUMBERS | LISTS, max_size=4), st.integers(0, 5), st.integers(0, 9))
def test_every_row_that_passes_is_still_read(filters: list[Any], start: int, size: int) -> None:
    found = narrow(filters)
    for partition in range(4):
        whole = OffsetRange("t", partition, start, start + size)
        left = found.range(whole)
        assert whole.start <= left.start <= left.stop <= whole.stop
        for offset in range(whole.start, whole.stop):
            if passes(filters, {"partition": partition, "offset": offset}):
                assert left.start <= offset < left.stop


@given(
    st.sampled_from(["EqualTo", "GreaterThan", "GreaterThanOrEqual"]),
    st.integers(-5_000_000, 5_000_000),
    st.integers(-6_000, 6_000),
)
def test_every_time_that_passes_is_still_read(kind: str, micros: int, record_ms: int) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    least = narrow([made(kind, "timestamp", epoch + timedelta(microseconds=micros))]).time_min
    assert least is not None
    if COMPARE[kind](record_ms * 1000, micros):
        assert record_ms >= least


def test_what_is_not_understood_narrows_nothing() -> None:
    filters = [
        made("LessThan", "timestamp", datetime.now(UTC)),
        made("StringStartsWith", "topic", "a"),
        made("EqualTo", "value", b"x"),
        made("EqualTo", "partition", "1"),
        Filter(("a", "b"), 1),
        object(),
    ]
    whole = OffsetRange("t", 3, 5, 50)
    assert narrow(filters).range(whole) == whole


def test_only_topics_that_are_named_are_read() -> None:
    found = narrow([made("In", "topic", ("a", "b")), made("EqualTo", "topic", "b")])
    assert found.range(OffsetRange("b", 0, 1, 9)).size == 8
    assert found.range(OffsetRange("a", 0, 1, 9)).size == 0
