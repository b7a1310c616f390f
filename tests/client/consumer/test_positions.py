"""Where reading stands, and which messages an answer gives: no socket in sight."""

import pytest

from barnabas.client.consumer.decoding import FetchedRecords
from barnabas.client.consumer.message import RawMessage
from barnabas.client.consumer.positions import GARBLED_MAX, FetchPosition, ReadPositions
from barnabas.model.errors import Corrupt, InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.fetch import PartitionData
from tests.client.fetched import AT, OTHER, batch, fetched


def reading(offset: int = 0, *, stop: int | None = None, at: TopicPartition = AT) -> ReadPositions:
    progress = ReadPositions()
    progress.add([at])
    progress[at].seek(FetchPosition(offset))
    if stop is not None:
        progress[at].stop = stop
    return progress


def offsets(
    progress: ReadPositions, answer: PartitionData, committed_only: bool = True
) -> list[int]:
    progress[AT].add(FetchedRecords(AT, answer, committed_only))
    return [message.offset for message in all_of(progress)]


def all_of(progress: ReadPositions, count_max: int = 1000) -> list[RawMessage]:
    found: list[RawMessage] = []
    while progress.readable:
        found += progress.take(count_max)
    return found


def test_reading_starts_inside_a_batch_and_never_repeats() -> None:
    progress = reading(3)
    assert offsets(progress, fetched(batch(0, 5), batch(5, 2))) == [3, 4, 5, 6]
    assert progress[AT].offset == 7
    assert offsets(progress, fetched(batch(5, 2), batch(7, 1))) == [7]


def test_a_part_of_a_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    progress = reading()
    assert offsets(progress, fetched(batch(0, 2), batch(2, 2)[:-1])) == [0, 1]
    assert progress[AT].fetch_offset == 2


def test_bytes_without_a_whole_batch_are_corrupt() -> None:
    with pytest.raises(Corrupt, match="no batch"):
        offsets(reading(), fetched(batch(0, 2)[:-1]))


def test_an_answer_that_ends_before_what_was_asked_for_is_corrupt() -> None:
    """It would be asked for again, and again."""
    with pytest.raises(Corrupt, match="asked from offset 5, answered up to 3"):
        offsets(reading(5), fetched(batch(0, 4)))


def test_reading_stops_before_its_stop() -> None:
    progress = reading(stop=3)
    assert not progress.finished
    assert offsets(progress, fetched(batch(0, 5))) == [0, 1, 2]
    assert progress.finished


def test_aborted_transactions_are_left_out_until_their_marker() -> None:
    abort, commit = b"\0\0\0\0", b"\0\0\0\1"
    answer = fetched(
        batch(0, 2, producer_id=7, transactional=True),  # aborted
        batch(2, 1, producer_id=8, transactional=True),  # committed
        batch(3, 1),  # no transaction
        batch(4, 1, producer_id=7, transactional=True, control_key=abort),
        batch(5, 1, producer_id=8, transactional=True, control_key=commit),
        batch(6, 1, producer_id=7, transactional=True),  # its next one, committed
        aborted=((7, 0),),
    )
    progress = reading()
    assert offsets(progress, answer) == [2, 3, 6]
    assert progress[AT].offset == 7
    assert offsets(reading(), answer, committed_only=False) == [0, 1, 2, 3, 6]


def test_markers_at_the_end_still_bring_a_reader_to_its_stop() -> None:
    progress = reading(stop=2)
    marker = batch(1, 1, producer_id=7, transactional=True, control_key=b"\0\0\0\1")
    assert offsets(progress, fetched(batch(0, 1), marker)) == [0]
    assert progress.finished


def test_what_is_given_back_comes_again() -> None:
    progress = reading()
    progress[AT].add(FetchedRecords(AT, fetched(batch(0, 5), batch(5, 5)), True))
    taken = progress.take(4)
    progress[AT].give_back(taken[1:])
    assert progress[AT].offset == 1
    assert [m.offset for m in progress.take(2)] == [1, 2]
    assert [m.offset for m in all_of(progress)] == [3, 4, 5, 6, 7, 8, 9]
    assert progress[AT].buffered == 0


def test_a_paused_partition_keeps_what_it_has() -> None:
    progress = reading()
    progress[AT].add(FetchedRecords(AT, fetched(batch(0, 3)), True))
    assert len(progress.take(1)) == 1
    progress[AT].paused = True
    assert not progress.readable
    assert progress.take(10) == []
    progress[AT].paused = False
    assert [m.offset for m in progress.take(10)] == [1, 2]


def test_partitions_have_their_turn() -> None:
    progress = reading()
    progress.add([OTHER])
    progress[OTHER].seek(FetchPosition(0))
    for at in (AT, OTHER):
        progress[at].add(FetchedRecords(at, fetched(batch(0, 3), batch(3, 3)), True))
    turns = [progress.take(3)[0].partition for _ in range(4)]
    assert turns == [0, 1, 0, 1]


def test_a_batch_with_a_wrong_checksum_is_corrupt_unless_nobody_looks() -> None:
    broken = bytearray(batch(0, 1))
    broken[17] ^= 1
    reader = reading()
    for _ in range(GARBLED_MAX - 1):  # garbled on the way, perhaps: it is fetched again
        assert offsets(reader, fetched(bytes(broken))) == []
        assert reader[AT].fetch_offset == 0
    with pytest.raises(Corrupt, match="checksum"):
        offsets(reader, fetched(bytes(broken)))
    assert offsets(reader, fetched(batch(0, 1))) == [0]
    trusting = ReadPositions(crc=False)
    trusting.add([AT])
    trusting[AT].seek(FetchPosition(0))
    assert offsets(trusting, fetched(bytes(broken))) == [0]


def test_a_partition_that_is_not_assigned_is_named() -> None:
    with pytest.raises(InvalidRequest, match="t-1 is not assigned"):
        reading()[OTHER]
