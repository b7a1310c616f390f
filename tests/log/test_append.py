"""Appending to one log, and rolling its segments."""

import struct

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.log import Log
from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import LOG_APPEND_TIME, check_crc
from barnabas.wire.records import decode_batch
from tests.log.batches import (
    NOW,
    PARTITION,
    SMALL,
    TOPIC_ID,
    batch,
    fill,
    new_log,
    offsets,
    open_directory,
    read_batches,
    write_snapshots,
)
from tests.simulator.disk import SimulatedDisk

# --- appending ----------------------------------------------------------------------------------


def test_offsets_follow_each_other_without_a_gap(log: Log) -> None:
    first = log.append(batch(3), 0, NOW)
    second = log.append(batch(2), 0, NOW)
    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 4)
    assert (log.start_offset, log.end_offset) == (0, 5)
    assert first.append_time_ms == -1
    assert not first.duplicate


def test_a_batch_is_stored_as_it_was_sent_but_for_offset_and_epoch(log: Log) -> None:
    log.append(batch(1), 3, NOW)
    sent = bytes(batch(4))
    log.append(memoryview(bytearray(sent)), 7, NOW)
    header, stored = list(read_batches(log))[1]
    assert (header.base_offset, header.leader_epoch) == (1, 7)
    assert stored[16:] == sent[16:]
    check_crc(stored, header)


def test_log_append_time_stamps_the_batch_and_its_checksum(disk: SimulatedDisk) -> None:
    log = new_log(disk, LogConfig(timestamp_type="append"))[1]
    appended = log.append(batch(2, time=NOW - 10**9), 0, NOW + 5)
    header, stored = next(read_batches(log))
    assert appended.append_time_ms == NOW + 5
    assert header.attributes & LOG_APPEND_TIME
    assert header.max_timestamp == NOW + 5
    check_crc(stored, header)
    assert [record.timestamp for record in decode_batch(stored)] == [NOW + 5, NOW + 5]


def with_field(position: int, layout: str, value: int, *, fix_crc: bool = True) -> memoryview:
    from crc32c import crc32c

    data = batch(2, producer=9, sequence=0)
    struct.pack_into(layout, data, position, value)
    if fix_crc:
        struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return data


@pytest.mark.parametrize(
    ("bad", "code", "words"),
    [
        (memoryview(b""), Code.CORRUPT_MESSAGE, "0 bytes"),
        (batch()[:60], Code.CORRUPT_MESSAGE, "60 bytes"),
        (batch()[:-1], Code.CORRUPT_MESSAGE, "cut short"),
        (memoryview(bytearray(bytes(batch()) * 2)), Code.INVALID_RECORD, "exactly one batch"),
        (with_field(0, ">q", 5), Code.INVALID_RECORD, "base offset is 5"),
        (with_field(8, ">i", -1), Code.CORRUPT_MESSAGE, "-1"),
        (with_field(16, ">b", 1), Code.CORRUPT_MESSAGE, "magic 1"),
        (with_field(17, ">I", 1, fix_crc=False), Code.CORRUPT_MESSAGE, "checksum"),
        (with_field(21, ">h", 5), Code.CORRUPT_MESSAGE, "codec 5"),
        (with_field(21, ">h", 1 << 3), Code.INVALID_TIMESTAMP, "LogAppendTime"),
        (with_field(21, ">h", 1 << 4), Code.INVALID_TXN_STATE, "producer 9"),
        (with_field(21, ">h", 1 << 5), Code.INVALID_RECORD, "control"),
        (with_field(21, ">h", 1 << 9), Code.INVALID_RECORD, "0x0200"),
        (with_field(23, ">i", 5), Code.INVALID_RECORD, "last offset delta is 5"),
        (with_field(57, ">i", 0), Code.INVALID_RECORD, "record count is 0"),
        (with_field(53, ">i", -1), Code.INVALID_RECORD, "sequence -1"),
        (with_field(35, ">q", -1), Code.INVALID_TIMESTAMP, "below base timestamp"),
        (with_field(35, ">q", NOW + 3_600_001), Code.INVALID_TIMESTAMP, "above"),
        (with_field(27, ">q", -5), Code.INVALID_TIMESTAMP, "-5"),
    ],
)
def test_a_bad_batch_is_refused_by_name_and_leaves_no_trace(
    log: Log, bad: memoryview, code: Code, words: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        log.append(bad, 0, NOW)
    assert refused.value.code == code
    assert words in refused.value.detail
    assert (log.end_offset, log.size, len(log.producers)) == (0, 0, 0)


def test_sizes_are_bounded_by_message_and_by_segment(disk: SimulatedDisk) -> None:
    log = new_log(disk, LogConfig(max_message_bytes=200, segment_bytes=300))[1]
    with pytest.raises(KafkaError, match=r"max\.message\.bytes is 200") as refused:
        log.append(batch(size=400), 0, NOW)
    assert refused.value.code == Code.MESSAGE_TOO_LARGE
    log.config = LogConfig(max_message_bytes=1000, segment_bytes=300)
    with pytest.raises(KafkaError, match=r"segment\.bytes is 300") as refused:
        log.append(batch(size=400), 0, NOW)
    assert refused.value.code == Code.RECORD_LIST_TOO_LARGE


def test_old_timestamps_are_refused_only_where_a_bound_is_set(log: Log) -> None:
    log.append(batch(time=NOW - 10**12), 0, NOW)
    log.config = LogConfig(timestamp_before_max_ms=1000)
    log.append(batch(time=NOW - 1000), 0, NOW)
    log.append(batch(time=-1), 0, NOW)  # no timestamp at all is always fine
    with pytest.raises(KafkaError, match="INVALID_TIMESTAMP"):
        log.append(batch(time=NOW - 1001), 0, NOW)


def test_a_write_that_fails_halfway_is_undone(disk: SimulatedDisk, log: Log) -> None:
    fill(log, 2)
    path = log.segments[0].path
    disk.fail_write(path, after_bytes=30)
    with pytest.raises(Failed) as failed:
        log.append(batch(5, producer=1, sequence=0), 0, NOW)
    assert failed.value.code == Code.KAFKA_STORAGE_ERROR
    assert disk.size(path) == log.size
    assert (log.end_offset, len(log.producers)) == (6, 0)
    assert log.append(batch(), 0, NOW).base_offset == 6


# --- rolling ------------------------------------------------------------------------------------


def test_a_segment_rolls_before_it_would_pass_segment_bytes(disk: SimulatedDisk) -> None:
    log = new_log(disk, SMALL)[1]
    fill(log, 60)
    assert len(log.segments) > 3
    assert all(segment.size <= 2000 for segment in log.segments)
    assert all(disk.size(segment.path) == segment.size for segment in log.segments)
    assert log.size == sum(segment.size for segment in log.segments)
    assert offsets(log) == list(range(0, 180, 3))


def test_a_segment_rolls_when_timestamps_have_moved_by_segment_ms(disk: SimulatedDisk) -> None:
    log = new_log(disk, LogConfig(segment_ms=1000))[1]
    log.append(batch(time=NOW), 0, NOW)
    log.append(batch(time=NOW + 1000), 0, NOW)
    assert len(log.segments) == 1
    log.append(batch(time=NOW + 1001), 0, NOW)
    assert len(log.segments) == 2


def test_without_timestamps_a_segment_rolls_by_its_age(disk: SimulatedDisk) -> None:
    log = new_log(disk, LogConfig(segment_ms=1000))[1]
    log.append(batch(time=-1), 0, NOW)
    log.append(batch(time=-1), 0, NOW + 1000)
    assert len(log.segments) == 1
    log.append(batch(time=-1), 0, NOW + 1001)
    assert len(log.segments) == 2


def test_jitter_rolls_earlier_and_differs_between_partitions(disk: SimulatedDisk) -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=900)
    directory = open_directory(disk, config)
    rolled_at = set()
    for number in range(5):
        log = directory.create(TopicPartition("orders", number), TOPIC_ID, config)
        log.append(batch(time=NOW), 0, NOW)
        time = NOW
        while len(log.segments) == 1:
            time += 10
            log.append(batch(time=time), 0, NOW)
        rolled_at.add(time - NOW)
    assert all(90 < waited <= 1010 for waited in rolled_at)
    assert len(rolled_at) > 1


def test_a_full_index_rolls_the_segment(disk: SimulatedDisk) -> None:
    log = new_log(disk, LogConfig(segment_index_bytes=48, index_interval_bytes=0))[1]
    fill(log, 40)
    assert len(log.segments) > 5
    assert all(segment.time_index.count <= 4 for segment in log.segments)
    assert offsets(log) == list(range(0, 120, 3))


def test_a_relative_offset_never_overflows_an_index(log: Log) -> None:
    fill(log, 1)
    log.end_offset = 2**31 - 2  # as if the segment held that many records
    log.append(batch(3), 0, NOW)
    assert log.segments[-1].base_offset == 2**31 - 2


@pytest.mark.parametrize("fault", ["open", "write"])
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_a_roll_that_fails_leaves_nothing_and_the_old_segment_goes_on(
    disk: SimulatedDisk, suffix: str, fault: str
) -> None:
    """An empty file of the next segment would pass for the end of the log."""
    directory, log = new_log(disk, SMALL)
    log.append(batch(size=1500), 0, NOW)
    log.append(batch(), 0, NOW)
    path = f"{log.path}/{log.end_offset:020d}{suffix}"
    if fault == "open":
        disk.fail_open(path)
    else:
        disk.fail_write(path, after_bytes=0)
    with pytest.raises(Failed) as failed:
        log.append(batch(size=1500), 0, NOW)
    assert failed.value.code == Code.KAFKA_STORAGE_ERROR
    disk.heal()
    if (suffix, fault) != (".log", "write"):  # that segment had been made, and stays
        assert [name for name in disk.list(log.path) if name.startswith(f"{2:020d}")] == []
        assert len(log.segments) == 1
    assert log.append(batch(), 0, NOW).base_offset == 2
    directory.close()
    directory = open_directory(disk, SMALL)
    log = directory.logs[PARTITION]
    assert (directory.findings, log.end_offset) == ([], 3)
    assert offsets(log) == [0, 1, 2]
    assert log.append(batch(size=1500), 0, NOW).base_offset == 3
    assert offsets(log) == [0, 1, 2, 3]


def test_a_roll_that_cannot_seal_the_old_segment_is_tried_again(disk: SimulatedDisk) -> None:
    log = new_log(disk, SMALL)[1]
    log.append(batch(size=1500), 0, NOW)
    disk.fail_open(log.segments[0].time_index.path)
    for _ in range(2):
        with pytest.raises(Failed, match="too many open files"):
            log.append(batch(size=1500), 0, NOW)
    disk.heal()
    assert log.append(batch(size=1500), 0, NOW).base_offset == 1
    assert offsets(log) == [0, 1]


def test_no_sync_happens_on_the_way_of_an_append(disk: SimulatedDisk) -> None:
    directory, log = new_log(disk, SMALL)
    disk.syncs.clear()
    fill(log, 60)
    assert len(log.segments) > 3
    assert disk.syncs == []
    assert directory.take_rolled() == [log]
    assert directory.take_rolled() == []


def test_a_flush_of_sealed_segments_moves_the_recovery_point_to_the_active_one(
    disk: SimulatedDisk,
) -> None:
    log = new_log(disk, SMALL)[1]
    fill(log, 60)
    write_snapshots(log)
    work = log.pending_flush(sealed_only=True)
    assert work is not None
    active = log.segments[-1]
    before = log.recovery_point
    work.run()
    fill(log, 1)
    assert log.flushed(work) == log.recovery_point == active.base_offset > before
    assert active.path not in disk.syncs
    for segment in log.segments[:-1]:
        assert {segment.path, segment.offset_index.path, segment.time_index.path} <= set(disk.syncs)
    assert log.pending_flush(sealed_only=True) is None
    assert log.flush() == log.end_offset
    assert log.pending_flush() is None
