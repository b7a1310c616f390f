"""Offsets as JSON, shares of a trigger, ranges of tasks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.ids import TopicPartition as At
from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.spark.offsets import OffsetRange, from_json, prorate, split, to_json

PARTITIONS = st.builds(At, st.sampled_from(["a", "b"]), st.integers(0, 12))


def ranges_of(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", number, 0, size) for number, size in enumerate(sizes)]


def sizes(ranges: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(each.partition, each.size) for each in ranges]


@given(st.dictionaries(PARTITIONS, st.integers(-2, 2**62)))
def test_the_same_offsets_are_the_same_text(offsets: dict[At, int]) -> None:
    text = json.dumps(to_json(offsets))
    shuffled = dict(reversed(offsets.items()))
    assert json.dumps(to_json(shuffled)) == text
    assert from_json(json.loads(text), "offsets") == offsets


@pytest.mark.parametrize(
    "document", [1, [], {"t": 1}, {"t": {"0": "x"}}, {"t": {"x": 1}}, {"t": {"0": True}},
                 {"t": {"0": 1.5}}, {"t": {"99999999999": 1}}, {"t": {"0": 2**70}}],
)  # fmt: skip
def test_what_is_not_offsets_by_partition_is_refused_by_name(document: object) -> None:
    with pytest.raises(OptionError, match=r"startingOffsets: expected e\.g\. "):
        from_json(document, "startingOffsets")


def test_a_trigger_is_shared_out_by_how_much_waits() -> None:
    start = {At("t", 0): 0, At("t", 1): 100, At("t", 2): 7}
    stop = {At("t", 0): 600, At("t", 1): 400, At("t", 2): 7}
    assert prorate(90, start, stop) == {At("t", 0): 60, At("t", 1): 130, At("t", 2): 7}


def test_the_smallest_partition_gets_one_record_of_a_trigger() -> None:
    start = {At("t", 0): 0, At("t", 1): 0}
    stop = {At("t", 0): 1_000_000, At("t", 1): 1}
    assert prorate(10, start, stop) == {At("t", 0): 9, At("t", 1): 1}


def test_nothing_waiting_leaves_the_end_as_it_is() -> None:
    assert prorate(10, {At("t", 0): 5}, {At("t", 0): 5}) == {At("t", 0): 5}


def test_without_a_wish_each_partition_is_one_task() -> None:
    assert sizes(split(ranges_of(5, 0, 7), None, None)) == [(0, 5), (2, 7)]


def test_a_hot_partition_is_read_by_many_tasks() -> None:
    assert sizes(split(ranges_of(100), 4, None)) == [(0, 25)] * 4


def test_only_large_partitions_are_split() -> None:
    found = sizes(split(ranges_of(1, 1, 98), 6, None))
    assert found == [(0, 1), (1, 1), (2, 24), (2, 24), (2, 25), (2, 25)]


def test_no_task_reads_more_records_than_allowed() -> None:
    assert sizes(split(ranges_of(25, 10), None, 10)) == [(0, 8), (0, 8), (0, 9), (1, 10)]


@given(
    st.lists(st.integers(0, 1000), max_size=6),
    st.none() | st.integers(1, 30),
    st.none() | st.integers(1, 300),
)
def test_tasks_together_read_every_offset_once(
    counts: list[int], tasks_min: int | None, records_max: int | None
) -> None:
    given_ranges = ranges_of(*counts)
    found = split(given_ranges, tasks_min, records_max)
    read = sorted((each.partition, n) for each in found for n in range(each.start, each.stop))
    assert read == sorted((each.partition, n) for each in given_ranges for n in range(each.stop))
    assert all(each.size > 0 for each in found)
    if records_max is not None:
        assert all(each.size <= records_max for each in found)
