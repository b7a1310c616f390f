"""Which rows of a batch a sink does not have yet, whatever became of checkpoint and drivers."""

import json
from random import Random

import pytest

from barnabas.model.ids import TopicPartition as At
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark.batch_identity import (
    BatchIdentity,
    SinkBehind,
    digest,
    done_of,
    overlaps,
    planned_offsets,
)

IDS = {"orders": "11111111-1111-1111-1111-111111111111"}
NEW_IDS = {"orders": "22222222-2222-2222-2222-222222222222"}


def batch(
    number: int, start: list[int], end: list[int], ids: dict[str, str] = IDS
) -> BatchIdentity:
    return BatchIdentity("q", number, offsets(start), offsets(end), ids)


def offsets(numbers: list[int]) -> dict[At, int]:
    return {At("orders", number): offset for number, offset in enumerate(numbers)}


def test_a_batch_that_is_repeated_has_nothing_left() -> None:
    first = batch(0, [0, 0], [10, 5])
    assert first.remaining({}) == offsets([0, 0])
    done = first.done_after({})
    assert first.remaining(done) == {}
    assert overlaps(first, done)
    following = batch(1, [10, 5], [12, 5])
    assert following.remaining(done) == {At("orders", 0): 10}
    assert not overlaps(following, done)


def test_the_same_number_with_other_offsets_is_another_batch() -> None:
    """An old copy of the checkpoint is restored: batch 1 ended at 20 before, and ends at 30 now."""
    done = batch(1, [10], [20]).done_after(batch(0, [0], [10]).done_after({}))
    again = batch(1, [10], [30])
    assert again.remaining(done) == offsets([20])
    assert again.remaining(done) != again.remaining({})
    assert again.remaining(again.done_after(done)) == {}


def test_offsets_of_a_topic_that_was_created_again_stand_for_other_rows() -> None:
    done = batch(0, [0], [40]).done_after({})
    assert batch(1, [0], [40], NEW_IDS).remaining(done) == offsets([0])


def test_ends_of_partitions_without_rows_are_kept_too() -> None:
    done = batch(0, [7, 0], [7, 3]).done_after({})
    assert done == {f"{IDS['orders']}/0": 7, f"{IDS['orders']}/1": 3}


def test_rows_that_were_taken_out_of_a_sink_are_not_passed_over() -> None:
    done = batch(0, [0], [10]).done_after({})
    with pytest.raises(
        SinkBehind, match="orders-0: the sink has rows up to offset 10, and batch 2"
    ):
        batch(2, [20], [30]).remaining(done)


def test_a_partition_that_begins_again_lower_is_written_again() -> None:
    """With failOnDataLoss=false, on a broker that gives topics no ids."""
    done = batch(0, [0], [50], {}).done_after({})
    back = batch(1, [50], [8], {})
    assert back.remaining(done) == {}
    assert batch(2, [8], [20], {}).remaining(back.done_after(done)) == offsets([8])


@pytest.mark.parametrize("seed", range(50))
def test_drivers_with_other_copies_of_a_checkpoint_write_every_row_once(seed: int) -> None:
    """Each plans its own batches; copies are made and restored; the sink takes one batch at a
    time.
    """
    chance = Random(seed)
    drivers = [(0, [0, 0]) for _ in range(3)]  # the next number, and where it begins
    rows: list[tuple[int, int]] = []
    done: dict[str, int] = {}
    for _ in range(60):
        who = chance.randrange(len(drivers))
        number, start = drivers[who]
        if chance.random() < 0.2:
            drivers[chance.randrange(len(drivers))] = (number, start)  # a copy of its checkpoint
            continue
        end = [offset + chance.randrange(6) for offset in start]
        planned = batch(number, start, end)
        for at, begin in planned.remaining(done).items():
            rows += [(at.partition, offset) for offset in range(begin, planned.end[at])]
        done = planned.done_after(done)
        drivers[who] = (number + 1, end)
    assert len(rows) == len(set(rows))
    for partition in (0, 1):
        found = sorted(offset for number, offset in rows if number == partition)
        assert found == list(range(done.get(f"{IDS['orders']}/{partition}", 0)))


def test_a_digest_distinguishes_offsets_and_topics() -> None:
    found = {digest(offsets([n]), ids) for n in range(100) for ids in (IDS, NEW_IDS)}
    assert len(found) == 200
    assert all(0 <= number < 2**63 for number in found)


def test_an_offset_log_of_spark_is_read_and_another_file_is_refused() -> None:
    text = 'v1\n{"batchWatermarkMs":0}\n' + json.dumps({"orders": {"0": 7, "1": 3}})
    assert planned_offsets(text, "offsets/4") == offsets([7, 3])
    for wrong in ("", "v2\n{}\n{}", "v1\n{}", "v1\n{}\n{", "v1\n{}\n{}\n{}"):
        with pytest.raises(PipelineError, match="offsets/4"):
            planned_offsets(wrong, "offsets/4")


def test_what_a_sink_stored_is_checked() -> None:
    assert done_of({"a/0": 3, "a/1": -1, "a/2": "x", "a/3": True}) == {"a/0": 3}
    assert done_of([1]) == done_of(None) == {}
