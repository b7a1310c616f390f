"""Reading one log, by offset and by time, and cutting it."""

from random import Random

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.log import Log
from barnabas.log.reader import BatchSlice
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
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
    reopened,
)
from tests.simulator.disk import SimulatedDisk

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
    assert log.read(0, 10, log.end_offset, min_one=False) == BatchSlice(None, 0)
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
    assert log.read(15, 1000, 15) == BatchSlice(None, 15)
    assert log.read(12, 1000, 10) == BatchSlice(None, 12)
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


def test_a_truncation_below_the_start_starts_again(disk: SimulatedDisk) -> None:
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
    directory = open_directory(disk, config, open_segments_max=3)
    logs = [directory.create(TopicPartition("t", number), TOPIC_ID, config) for number in range(8)]
    for number in range(30):
        for log in logs:
            log.append(batch(time=NOW + number), 0, NOW)
    for log in logs:
        assert offsets(log) == list(range(30))
        open_files = [segment for segment in log.segments if segment.open_file is not None]
        assert len(open_files) <= 3
    directory.close()
    again = open_directory(disk, config)
    assert again.findings == []
    assert [offsets(log) for log in again.logs.values()] == [list(range(30))] * 8


def test_an_idle_log_holds_no_file_open(disk: SimulatedDisk) -> None:
    directory, log = new_log(disk)
    assert log.segments[0].open_file is None
    fill(log, 1)
    directory.close()
    log = reopened(disk)
    assert log.segments[0].open_file is None
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
