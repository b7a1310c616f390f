"""The bounds that filters leave: never too narrow."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from barnabas.pipeline.lake.pruning import Bound, bounds_of, renamed


class EqualTo(NamedTuple):
    """As Spark's."""

    attribute: tuple[str, ...]
    value: Any


class GreaterThan(EqualTo): ...


class LessThanOrEqual(EqualTo): ...


class In(EqualTo): ...


class Not(EqualTo): ...


class IsNotNull(NamedTuple):
    """As Spark's, which adds it to a comparison with a column that may be null."""

    attribute: tuple[str, ...]


TIME = datetime(2026, 1, 2)


@pytest.mark.parametrize(
    ("filters", "bounds"),
    [
        ([EqualTo(("_offset",), 5)], {"_offset": Bound(5, 5)}),
        (
            [GreaterThan(("_offset",), 5), LessThanOrEqual(("_offset",), 9)],
            {"_offset": Bound(5, 9)},
        ),
        ([In(("_partition",), (3, 1))], {"_partition": Bound(1, 3)}),
        ([In(("_partition",), (3, None))], {}),
        ([GreaterThan(("_ts",), TIME)], {"_ts": Bound(TIME.replace(tzinfo=UTC), None)}),
        ([EqualTo(("_topic",), "a"), Not(("_topic",), "b")], {"_topic": Bound("a", "a")}),
        ([EqualTo(("_offset",), "5"), EqualTo(("id",), 5), EqualTo(("_ts", "x"), 5)], {}),
        ([EqualTo(("_offset",), True)], {}),
    ],
)
def test_filters_become_bounds(filters: list[Any], bounds: dict[str, Bound]) -> None:
    assert bounds_of(filters) == bounds


def test_a_file_is_skipped_only_if_no_row_can_pass() -> None:
    bound = Bound(5, 9)
    assert [bound.may_overlap(*each) for each in ((0, 4), (0, 5), (9, 20), (10, 20))] == [
        False, True, True, False,
    ]  # fmt: skip
    assert bound.may_overlap(None, None)
    assert Bound().may_overlap(1, 2)


def test_filters_are_renamed_for_the_source_and_those_without_a_value_are_left_to_spark() -> None:
    found = renamed([IsNotNull(("_offset",)), GreaterThan(("_offset",), 5), EqualTo(("id",), 5)])
    assert found == [GreaterThan(("offset",), 5)]
