"""Appending, reading, rolling and cutting one log."""

import struct
from random import Random

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
    TOPIC_ID,
    batch,
    new_log,
    open_directory,
    read_batches,
    reopened,
)
from tests.simulator.disk import SimulatedDisk

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=300, segment_index_bytes=4096)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return new_log(disk)[1]


def fill(log: Log, batches: int, count: int = 3, epoch: int = 1) -> None:
    for number in range(batches):
        log.append(batch(count, time=NOW + number), epoch, NOW)


def offsets(log: Log, **options: int) -> list[int]:
    return [header.base_offset for header, _ in read_batches(log, **options)]


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
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot"])
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


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_max", [0, 1, 150, 500, 1999, 5000, 1 << 20])
def test_a_reader_gets_every_batch_whole_and_once(disk: SimulatedDisk, bytes_max: int) -> None:
    """Hazard 29: a batch larger than the fetch still comes, or the reader would stand still."""
    rng = Random(bytes_max)
    log = new_log(disk, SMALL)[1]
    expected = [
        log.append(batch(rng.randint(1, 5), size=rng.choice((1, 50, 300))), 0, NOW).base_offset
        for _ in range(200)
    ]
    assert offsets(log, bytes_max=bytes_max) == expected


def test_a_slice_keeps_to_the_bytes_asked_for_but_for_its_first_batch(disk: SimulatedDisk) -> None:
    log = new_log(disk, LogConfig(index_interval_bytes=300))[1]
    rng = Random(4)
    for _ in range(100):
        log.append(batch(size=rng.choice((10, 100, 400))), 0, NOW)
    for offset in range(100):
        for bytes_max in (0, 90, 200, 1000, 3000):
            part = log.read(offset, bytes_max, log.end_offset).file_slice
            assert part is not None
            first = next(read_batches(log, start=offset))[0]
            assert part.length <= max(bytes_max, first.size)


def test_a_first_batch_too_large_stays_away_if_not_asked_for(log: Log) -> None:
    fill(log, 3)
    assert log.read(0, 10, log.end_offset, min_one=False) == (None, 0)
    whole = log.read(0, 1 << 20, log.end_offset, min_one=False)
    assert whole.file_slice is not None
    assert whole.next_offset == 9


def test_an_offset_inside_a_batch_finds_the_whole_batch(log: Log) -> None:
    fill(log, 5)
    assert [offsets(log, start=start)[0] for start in range(15)] == [n // 3 * 3 for n in range(15)]


def test_nothing_at_or_above_the_limit_is_read(disk: SimulatedDisk) -> None:
    log = new_log(disk, SMALL)[1]
    fill(log, 60)
    for limit in range(181):
        read = [header.last_offset for header, _ in read_batches(log, limit=limit)]
        assert read == list(range(2, limit, 3))


def test_a_caught_up_reader_gets_nothing_and_touches_no_file(disk: SimulatedDisk, log: Log) -> None:
    fill(log, 5)
    disk.reads = 0
    disk.opened.clear()
    assert log.read(15, 1000, 15) == (None, 15)
    assert log.read(12, 1000, 10) == (None, 12)
    assert (disk.reads, disk.opened) == (0, [])


@pytest.mark.parametrize("offset", [-1, 16])
def test_an_offset_outside_the_log_is_refused(log: Log, offset: int) -> None:
    fill(log, 5)
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        log.read(offset, 1000, 15)


def test_a_reader_that_follows_the_appends_pays_no_scan(disk: SimulatedDisk) -> None:
    log = new_log(disk, SMALL)[1]
    offset = 0
    fill(log, 1)
    offset = log.read(0, 1 << 20, log.end_offset).next_offset
    disk.reads = 0
    for _ in range(100):
        fill(log, 1)
        offset = log.read(offset, 1 << 20, log.end_offset).next_offset
        assert offset == log.end_offset
    assert disk.reads == 0


def test_a_lookup_reads_as_little_of_a_long_log_as_of_a_short_one(disk: SimulatedDisk) -> None:
    log = new_log(disk, LogConfig(segment_bytes=1 << 30))[1]
    costs = []
    for size in (500, 5000):
        while log.end_offset < size * 3:
            fill(log, 1)
        disk.bytes_read = 0
        log.read(size * 2 + 1, 1 << 20, log.end_offset)
        costs.append(disk.bytes_read)
    assert max(costs) <= 16384


def test_a_slice_outlives_the_segment_it_came_from(disk: SimulatedDisk) -> None:
    log = new_log(disk, SMALL)[1]
    fill(log, 60)
    part = log.read(0, 1 << 20, log.end_offset).file_slice
    assert part is not None
    log.advance_high_watermark(log.end_offset)
    log.delete_before(100)
    assert len(part.file.read(part.position, part.length)) == part.length


# --- the high watermark -------------------------------------------------------------------------


def test_the_high_watermark_rises_and_stops_at_the_end(log: Log) -> None:
    fill(log, 5)
    assert log.high_watermark == 0
    assert log.advance_high_watermark(6) == 6
    assert log.advance_high_watermark(3) == 6
    assert log.advance_high_watermark(99) == 15


# --- times and epochs ---------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_a_time_finds_the_first_record_at_or_after_it(disk: SimulatedDisk, clean: bool) -> None:
    directory, log = new_log(disk, SMALL)
    rng = Random(7)
    records: list[tuple[int, int]] = []
    for number in range(80):
        data = batch(rng.randint(1, 4), time=NOW + rng.randint(-50, 50) + number * 10)
        log.append(data, number // 30, NOW)
        records += [(record.offset, record.timestamp) for record in decode_batch(data)]
    if clean:
        directory.close()
        log = reopened(disk, SMALL)
    for time in range(NOW - 80, NOW + 900, 7):
        expected = next(((o, t) for o, t in records if t >= time), None)
        found = log.find_time(time)
        assert (found and found[:2]) == expected
    largest = max(t for _, t in records)
    assert log.find_max_timestamp() == (
        *next((o, t) for o, t in records if t == largest),
        log.epochs.epoch_at(next(o for o, t in records if t == largest)),
    )


def test_a_time_is_found_behind_the_start_of_the_log_only(log: Log) -> None:
    log.append(batch(10, time=NOW), 4, NOW)
    log.advance_high_watermark(10)
    log.delete_before(5)
    assert log.find_time(0) == (5, NOW - 4, 4)
    assert log.find_time(NOW + 1) is None


def test_an_empty_log_has_no_times(log: Log) -> None:
    assert log.find_time(0) is None
    assert log.find_max_timestamp() is None


def test_an_epoch_ends_where_the_next_begins(log: Log) -> None:
    for epoch, batches in ((2, 2), (5, 1), (6, 3)):
        fill(log, batches, epoch=epoch)
    log.begin_epoch(9)
    assert log.epoch_end(6) == (6, 18)
    assert log.epoch_end(9) == (9, 18)
    assert log.epoch_end(5) == (5, 9)
    assert log.epoch_end(4) == (2, 6)
    assert log.epoch_end(1) == (1, 0)
    assert log.epoch_end(10) == (-1, -1)
    assert log.epoch_end(-1) == (-1, -1)


# --- cutting ------------------------------------------------------------------------------------


def test_deleting_raises_the_start_and_drops_whole_segments(disk: SimulatedDisk) -> None:
    directory, log = new_log(disk, SMALL)
    fill(log, 60)
    log.advance_high_watermark(150)
    segments = len(log.segments)
    log.flush()
    log.delete_before(100)
    assert (log.start_offset, log.end_offset) == (100, 180)
    assert len(log.segments) < segments
    assert log.segments[0].base_offset <= 100 < log.segments[1].base_offset
    assert log.size == sum(segment.size for segment in log.segments)
    assert offsets(log)[0] == 99
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        log.read(99, 1000, 180)
    with pytest.raises(KafkaError, match="high watermark is 150"):
        log.delete_before(151)
    log.delete_before(20)
    assert log.start_offset == 100
    directory.close()
    log = reopened(disk, SMALL)
    assert (log.start_offset, log.high_watermark, log.end_offset) == (100, 150, 180)


@pytest.mark.parametrize("offset", [0, 1, 3, 50, 99, 120, 178, 180])
def test_truncation_leaves_what_a_shorter_history_would_have_left(offset: int) -> None:
    """Hazard 18: producers, epochs and indexes past the cut go with the records."""

    def history(batches: int) -> Log:
        log = new_log(SimulatedDisk(), SMALL)[1]
        for number in range(batches):
            data = batch(3, time=NOW + number, producer=number % 4, sequence=number // 4 * 3)
            log.append(data, number // 25, NOW)
        return log

    long, short = history(60), history(offset // 3)
    long.advance_high_watermark(180)
    long.truncate_to(offset)
    assert long.end_offset == short.end_offset == long.high_watermark
    assert [stored for _, stored in read_batches(long)] == [s for _, s in read_batches(short)]
    assert long.producers.entries == short.producers.entries
    assert long.epochs.entries == short.epochs.entries
    assert long.find_max_timestamp() == short.find_max_timestamp()
    assert long.size == short.size
    for log in (long, short):
        log.append(batch(2, time=NOW + 99), 7, NOW)
    assert [s for _, s in read_batches(long)] == [s for _, s in read_batches(short)]


def test_a_truncation_below_the_start_begins_anew(disk: SimulatedDisk) -> None:
    log = new_log(disk, SMALL)[1]
    fill(log, 60)
    log.advance_high_watermark(180)
    log.delete_before(100)
    log.truncate_to(50)
    assert (log.start_offset, log.end_offset, log.size) == (50, 50, 0)
    assert log.append(batch(), 0, NOW).base_offset == 50


# --- open files ---------------------------------------------------------------------------------


def test_few_files_stay_open_however_many_segments_there_are(disk: SimulatedDisk) -> None:
    config = LogConfig(segment_bytes=400, index_interval_bytes=100, segment_index_bytes=4096)
    directory = open_directory(disk, config, warm_segments_max=3)
    logs = [directory.create(TopicPartition("t", number), TOPIC_ID, config) for number in range(8)]
    for number in range(30):
        for log in logs:
            log.append(batch(time=NOW + number), 0, NOW)
    for log in logs:
        assert offsets(log) == list(range(30))
        open_files = [segment for segment in log.segments if segment._file is not None]
        assert len(open_files) <= 3
    directory.close()
    again = open_directory(disk, config)
    assert again.findings == []
    assert [offsets(log) for log in again.logs.values()] == [list(range(30))] * 8


def test_an_idle_log_holds_no_file_open(disk: SimulatedDisk) -> None:
    directory, log = new_log(disk)
    assert log.segments[0]._file is None
    fill(log, 1)
    directory.close()
    log = reopened(disk)
    assert log.segments[0]._file is None
    assert log.partition == PARTITION
    assert log.topic_id == TOPIC_ID


def test_a_flush_overtaken_by_a_truncation_proves_nothing(disk: SimulatedDisk) -> None:
    log = new_log(disk)[1]
    fill(log, 10)
    work = log.pending_flush()
    assert work is not None
    work.run()
    log.truncate_to(15)
    fill(log, 5)
    assert log.flushed(work) == log.durable_offset <= 15
    assert log.flush() == 30
