"""What opening makes of torn, flipped, missing and stale files."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.directory import opening as directory_open
from barnabas.log.directory.checkpoints import RECOVERY_POINT, decode_offsets
from barnabas.log.log import Log
from barnabas.log.recovery import log_recovery as recovery
from barnabas.log.segments.scan import CHUNK_SIZE, headers
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from tests.log.batches import (
    DATA,
    NOW,
    PARTITION,
    TOPIC_ID,
    batch,
    new_log,
    open_directory,
    read_batches,
    reopened,
    write_snapshots,
)
from tests.share import some
from tests.simulator.disk import SimulatedDisk

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, segment_index_bytes=4096)
ONE_SEGMENT = LogConfig(segment_index_bytes=4096)
HOME = f"{DATA}/{PARTITION}"


def written(batches: int = 12, config: LogConfig = CONFIG) -> tuple[SimulatedDisk, list[bytes]]:
    """The disk of a broker killed after some appends, and the batches it had acknowledged."""
    disk = SimulatedDisk()
    log = new_log(disk, config)[1]
    for number in range(batches):
        data = batch(2, time=NOW + number, producer=number % 2, sequence=number // 2 * 2)
        log.append(data, number // 5, NOW)
    return disk.kill(), [stored for _, stored in read_batches(log)]


def last_segment(disk: SimulatedDisk) -> str:
    return f"{HOME}/{[name for name in disk.list(HOME) if name.endswith('.log')][-1]}"


def stored(log: Log) -> list[bytes]:
    return [data for _, data in read_batches(log)]


def test_a_kill_loses_nothing() -> None:
    disk, batches = written()
    directory = open_directory(disk, CONFIG)
    assert directory.findings == []
    assert stored(directory.logs[PARTITION]) == batches


def test_a_tail_cut_at_any_byte_leaves_whole_batches() -> None:
    """Hazard 25."""
    disk, batches = written(8, ONE_SEGMENT)
    path = last_segment(disk)
    length = disk.size(path)
    ends = [0]
    for data in batches:
        ends.append(ends[-1] + len(data))
    for size in some(range(length, -1, -1)):
        disk.open(path).truncate(size)
        copy = disk.kill()
        directory = open_directory(copy)
        log = directory.logs[PARTITION]
        whole = sum(end <= size for end in ends) - 1
        assert stored(log) == batches[:whole]
        assert log.end_offset == whole * 2
        assert copy.size(path) == ends[whole]
        torn = size not in ends
        assert any("cut to" in finding.action for finding in directory.findings) == torn


def test_a_flip_in_any_region_cuts_from_that_batch_on() -> None:
    """Hazard 25. The leader epoch is outside the checksum, as in Kafka, so it may change."""
    disk, batches = written(6, ONE_SEGMENT)
    path = last_segment(disk)
    start = 0
    for number, data in enumerate(batches):
        for inside in some(range(len(data))):
            copy = disk.kill()
            copy.flip(path, start + inside)
            log = reopened(copy)
            if 12 <= inside < 16:
                assert [data[16:] for data in stored(log)] == [data[16:] for data in batches]
                continue
            assert stored(log) == batches[:number]
            assert log.findings[0].path == path
            assert f"the log ends at {number * 2}" in log.findings[0].action
        start += len(data)


def test_damage_in_an_unsynced_segment_takes_the_segments_behind_it() -> None:
    disk, batches = written(60)
    names = [name for name in disk.list(HOME) if name.endswith(".log")]
    assert len(names) > 3
    disk.flip(f"{HOME}/{names[1]}", 100)
    log = reopened(disk, CONFIG)
    assert log.end_offset == int(names[1][:20])
    assert stored(log) == batches[: log.end_offset // 2]
    assert len(log.segments) == 2
    removed = [finding for finding in log.findings if finding.action == "segment removed"]
    assert len(removed) == len(names) - 2
    assert log.append(batch(), 9, NOW).base_offset == log.end_offset - 1


def test_an_index_rebuilt_below_the_recovery_point_is_synced() -> None:
    """The next start trusts it: after a roll at the recovery point its segment is not checked."""
    disk = SimulatedDisk()
    directory, log = new_log(disk, CONFIG)
    log.append(batch(2), 0, NOW)
    directory.close()
    open_directory(disk, CONFIG)
    disk = disk.kill()
    log = reopened(disk, CONFIG)
    assert log.recovery_point == log.end_offset == 2
    assert {log.active.offset_index.path, log.active.time_index.path} <= set(disk.syncs)


def test_segments_before_the_recovery_point_are_not_read_again() -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, CONFIG)
    for number in range(100):
        log.append(batch(2, time=NOW + number), 0, NOW)
    write_snapshots(log)
    work = log.pending_flush(sealed_only=True)
    assert work is not None
    work.run()
    log.flushed(work)
    directory.checkpoint()
    disk = disk.kill()
    disk.opened.clear()
    log = reopened(disk, CONFIG)
    assert log.end_offset == 200
    read = {path for path in disk.opened if path.endswith(".log")}
    assert read == {log.segments[-1].path}


def test_a_clean_stop_opens_without_reading_the_data() -> None:
    config = LogConfig(segment_bytes=1 << 20, segment_index_bytes=1 << 16)
    disk = SimulatedDisk()
    directory, log = new_log(disk, config)
    for number in range(3000):
        log.append(batch(5, time=NOW + number), 0, NOW)
    size = log.size
    directory.close()
    disk.reads = disk.bytes_read = 0
    log = reopened(disk, config)
    assert (log.end_offset, log.size) == (15000, size)
    assert disk.bytes_read <= 3 * CHUNK_SIZE < size


def test_a_marker_that_lies_is_found_out_at_the_tail() -> None:
    disk, batches = SimulatedDisk(), []
    directory, log = new_log(disk)
    for _ in range(5):
        log.append(batch(2), 0, NOW)
    batches = stored(log)
    path = log.segments[0].path
    directory.close()
    disk.open(path).truncate(disk.size(path) - 7)
    log = reopened(disk)
    assert stored(log) == batches[:4]
    assert "after a clean stop" in log.findings[0].what


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("harm", ["missing", "empty", "odd", "zeros", "flipped"])
def test_a_bad_index_of_an_old_segment_is_rebuilt(suffix: str, harm: str) -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, CONFIG)
    for number in range(100):
        log.append(batch(2, time=NOW + number), 0, NOW)
    expected = stored(log)
    directory.close()
    path = f"{HOME}/{0:020d}{suffix}"
    good = disk.read_file(path)
    if harm == "missing":
        disk.remove(path)
    elif harm == "empty":
        disk.open(path).truncate(0)
    elif harm == "odd":
        disk.open(path).truncate(len(good) - 1)
    elif harm == "zeros":
        disk.open(path).write(0, bytes(len(good)))
    else:
        disk.flip(path, len(good) - 8)
    log = reopened(disk, CONFIG)
    for start in range(0, 200, 2):
        assert next(read_batches(log, start=start))[1] == expected[start // 2]
    assert log.find_time(NOW + 3) == (7, NOW + 3, 0)
    if harm == "empty" and suffix == ".index":
        return  # legal, only slower: a segment may have no offset entry
    assert disk.read_file(path) == good
    assert [finding.action for finding in log.findings] == ["indexes rebuilt"]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("active", [False, True])
def test_a_bad_entry_is_found_when_a_search_ends_at_it(suffix: str, active: bool) -> None:
    disk = SimulatedDisk()
    config = replace(CONFIG, segment_bytes=1 << 20 if active else 3000)
    directory, log = new_log(disk, config)
    for number in range(100):
        log.append(batch(2, time=NOW + number), 0, NOW)
    expected = stored(log)
    directory.close()
    path = f"{HOME}/{0:020d}{suffix}"
    good = disk.read_file(path)
    entry = 8 if suffix == ".index" else 12
    for slot in some(range(1, len(good) // entry - 1)):
        for field in (3, 7, 11)[: entry // 4]:
            after = disk.kill()
            after.flip(path, slot * entry + field)
            log = reopened(after, config)
            log.append(batch(2, time=NOW + 100), 0, NOW)
            assert log.findings == []  # nobody has asked for that part yet
            for number in range(0, 100, 3):
                assert next(read_batches(log, start=number * 2))[1] == expected[number]
                assert log.find_time(NOW + number) == (number * 2 + 1, NOW + number, 0)
            assert {finding.action for finding in log.findings} <= {"indexes rebuilt"}
            for _ in range(20):
                log.append(batch(2, time=NOW + 101), 0, NOW)
            assert stored(log)[:100] == expected
            assert len(stored(log)) == 121


def test_a_rebuilt_index_equals_the_one_that_appending_wrote() -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, CONFIG)
    rng = Random(5)
    for number in range(200):
        log.append(
            batch(2, size=rng.choice((1, 90)), time=NOW + rng.randint(0, 99) + number), 0, NOW
        )
    directory.close()
    paths = [f"{HOME}/{name}" for name in disk.list(HOME) if "index" in name]
    before = {path: disk.read_file(path) for path in paths}
    disk.remove(f"{DATA}/.kafka_cleanshutdown")
    disk.remove(f"{DATA}/recovery-point-offset-checkpoint")
    reopened(disk, CONFIG)
    assert {path: disk.read_file(path) for path in paths} == before


@pytest.mark.parametrize("damaged", [False, True])
def test_an_empty_file_inside_the_last_segment_is_not_the_end_of_the_log(damaged: bool) -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, ONE_SEGMENT)
    for _ in range(4):
        log.append(batch(2), 0, NOW)
    size = log.size
    directory.close()
    stray = f"{HOME}/{4:020d}.log"
    disk.open(stray, create=True)
    if damaged:
        disk.open(f"{HOME}/{0:020d}.log").truncate(size - 1)
    directory = open_directory(disk, ONE_SEGMENT)
    log = directory.logs[PARTITION]
    assert log.end_offset == (6 if damaged else 8)
    assert (stray, "removed") in [(found.path, found.action) for found in directory.findings]
    assert not disk.exists(stray)
    assert log.append(batch(), 0, NOW).base_offset == log.end_offset - 1
    assert len(stored(log)) == (4 if damaged else 5)


def test_an_empty_segment_at_the_very_end_stays() -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, ONE_SEGMENT)
    log.append(batch(2), 0, NOW)
    directory.close()
    disk.open(f"{HOME}/{2:020d}.log", create=True)
    log = reopened(disk, ONE_SEGMENT)
    assert (log.end_offset, len(log.segments)) == (2, 2)


def test_an_index_without_its_log_is_removed() -> None:
    disk, _ = written(3)
    disk.open(f"{HOME}/{99:020d}.index", create=True)
    log = reopened(disk, CONFIG)
    assert log.findings[0].what == "an index without its log file"
    assert not disk.exists(f"{HOME}/{99:020d}.index")


# --- producers (hazards 17 and 18) --------------------------------------------------------------


def test_every_repeat_in_the_window_is_known_after_a_kill() -> None:
    """Hazard 17: written, killed before the answer; the client sends all five again."""
    disk = SimulatedDisk()
    log = new_log(disk, LogConfig(segment_bytes=300))[1]
    for number in range(7):
        log.append(batch(2, producer=5, sequence=number * 2), 0, NOW)
    assert len(log.segments) > 3  # the window spans rolls
    log = reopened(disk.kill(), LogConfig(segment_bytes=300))
    for number in range(2, 7):
        again = log.append(batch(2, producer=5, sequence=number * 2), 0, NOW)
        assert (again.duplicate, again.base_offset) == (True, number * 2)
    assert log.append(batch(2, producer=5, sequence=14), 0, NOW).base_offset == 14


@pytest.mark.parametrize("clean", [True, False])
def test_producer_state_comes_back_as_it_was(clean: bool) -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, CONFIG)
    for number in range(50):
        log.append(batch(2, producer=number % 7, sequence=number // 7 * 2, epoch=3), 0, NOW)
    if clean:
        directory.close()
    assert reopened(disk.kill(), CONFIG).producers.entries == log.producers.entries


@pytest.mark.parametrize("harm", ["flip", "cut", "missing", "future", "empty"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_bad_snapshot_is_not_believed(harm: str, clean: bool) -> None:
    """Hazard 18: corrupt, torn, lost, or telling of records that are not there."""
    disk = SimulatedDisk()
    directory, log = new_log(disk, CONFIG)
    for number in range(50):
        log.append(batch(2, producer=number % 7, sequence=number // 7 * 2), 0, NOW)
    if clean:
        directory.close()
    disk = disk.kill()
    for name in disk.list(HOME):
        if not name.endswith(".snapshot"):
            continue
        path = f"{HOME}/{name}"
        if harm == "flip":
            disk.flip(path, 20)
        elif harm == "cut":
            disk.open(path).truncate(disk.size(path) - 3)
        elif harm == "missing":
            disk.remove(path)
        elif harm == "empty":
            disk.open(path).truncate(0)
        else:
            disk.open(f"{HOME}/{500:020d}.snapshot", create=True).write(0, disk.read_file(path))
    again = reopened(disk, CONFIG)
    assert again.producers.entries == log.producers.entries
    assert not disk.exists(f"{HOME}/{500:020d}.snapshot")


# --- the rest -----------------------------------------------------------------------------------


def test_epochs_come_back_from_the_batches_and_from_the_file() -> None:
    disk, _ = written(12)
    log = reopened(disk, CONFIG)
    assert log.epochs.entries == [(0, 0), (1, 10), (2, 20)]
    log.flush()
    assert disk.read_file(f"{HOME}/leader-epoch-checkpoint") == b"0\n3\n0 0\n1 10\n2 20\n"
    disk.replace_file(f"{HOME}/leader-epoch-checkpoint", b"nonsense")
    log = reopened(disk.kill(), CONFIG)
    assert log.epochs.latest == 2
    assert any("leader-epoch-checkpoint" in finding.path for finding in log.findings)


def test_an_epoch_whose_records_are_lost_is_not_given_out_again() -> None:
    disk, _ = written(5, ONE_SEGMENT)
    log = reopened(disk, ONE_SEGMENT)
    log.begin_epoch(7, durable=True)
    assert disk.read_file(f"{HOME}/leader-epoch-checkpoint") == b"0\n2\n0 0\n7 10\n"
    log.flush()
    log.append(batch(), 7, NOW)
    size = log.size
    for kept, entries in ((size, [(0, 0), (7, 10)]), (size - 1, [(0, 0), (7, 10)])):
        disk = disk.kill()
        disk.open(f"{HOME}/{0:020d}.log").truncate(kept)
        assert reopened(disk, ONE_SEGMENT).epochs.entries == entries
    disk = disk.kill()
    disk.flip(f"{HOME}/{0:020d}.log", 100)  # even below where it began
    log = reopened(disk, ONE_SEGMENT)
    assert (log.end_offset, log.epochs.latest) == (0, 7)
    log.begin_epoch(8, durable=True)
    log = reopened(disk.kill(), ONE_SEGMENT)
    assert log.epochs.latest == 8


def test_readers_of_lost_records_learn_where_the_log_ends_now() -> None:
    """Two power losses in a row: the second may take all that the epoch had written."""
    disk, _ = written(5, ONE_SEGMENT)
    log = reopened(disk, ONE_SEGMENT)
    log.begin_epoch(1, durable=True)
    kept = log.size
    for _ in range(4):
        log.append(batch(), 1, NOW)
    disk = disk.kill()
    disk.open(f"{HOME}/{0:020d}.log").truncate(kept)
    log = reopened(disk, ONE_SEGMENT)
    assert log.epochs.latest == 1
    log.begin_epoch(2, durable=True)
    for _ in range(9):
        log.append(batch(), 2, NOW)
    assert log.epoch_end(1) == (0, 10)


def test_a_lost_topic_id_is_said_and_can_be_given_again() -> None:
    disk, _ = written(2)
    disk.open(f"{HOME}/partition.metadata").truncate(0)
    log = reopened(disk, CONFIG)
    assert log.topic_id == NO_TOPIC_ID
    assert "partition.metadata" in log.findings[0].path


def test_a_start_offset_beyond_the_end_begins_an_empty_log_there() -> None:
    disk, _ = written(5)
    disk.replace_file(f"{DATA}/log-start-offset-checkpoint", b"0\n1\norders 0 400\n")
    log = reopened(disk, CONFIG)
    assert (log.start_offset, log.end_offset, log.size) == (400, 400, 0)
    assert log.findings
    assert log.append(batch(), 0, NOW).base_offset == 400


def test_a_disk_that_lost_synced_records_is_reported() -> None:
    disk, _ = written(5)
    disk.replace_file(f"{DATA}/recovery-point-offset-checkpoint", b"0\n1\norders 0 400\n")
    log = reopened(disk, CONFIG)
    assert log.end_offset == 10
    assert "the disk did not keep" in log.findings[-1].action


def test_holes_are_kept_where_compaction_makes_them_and_cut_elsewhere() -> None:
    disk, batches = written(8, ONE_SEGMENT)
    path = last_segment(disk)
    data = b"".join(batches[:3] + batches[5:])
    disk.open(path).truncate(0)
    disk.open(path).write(0, data)
    assert reopened(disk.kill(), ONE_SEGMENT).end_offset == 6
    compacted = reopened(disk.kill(), LogConfig(compacted=True))
    assert compacted.end_offset == 16
    assert stored(compacted) == batches[:3] + batches[5:]
    part = compacted.read(7, 1000, 16)
    assert part.file_slice is not None
    assert part.file_slice.position == sum(map(len, batches[:3]))


def test_a_new_compacted_log_believes_no_hole_between_its_files() -> None:
    """It was never checkpointed, so it was never compacted: a power loss took what is missing."""
    config = LogConfig(segment_bytes=600, index_interval_bytes=300, compacted=True)
    disk = SimulatedDisk()
    log = open_directory(disk, config).create(PARTITION, TOPIC_ID, config)
    while len(log.segments) < 4:
        log.append(batch(size=100), 0, NOW)
    second = log.segments[1]
    last, _ = list(headers(second.file(), 0, second.size))[-1]
    lost_from = second.next_offset - 1
    path = second.path
    after = disk.kill()
    after.open(path).truncate(last)
    log = open_directory(after, config).logs[PARTITION]
    assert log.end_offset == lost_from


@pytest.mark.parametrize("seed", range(60))
def test_whatever_its_files_are_like_one_log_does_not_stop_the_others(seed: int) -> None:
    """Two logs, one of them damaged in several files: the directory opens, and says what it did."""
    rng = Random(seed)
    config = replace(CONFIG, compacted=rng.random() < 0.5)
    disk = SimulatedDisk()
    directory, log = new_log(disk, config)
    other = directory.create(TopicPartition("other", 0), TOPIC_ID, config)
    other.append(batch(2), 0, NOW)
    for number in range(20):
        data = batch(2, time=NOW + number, producer=number % 3, sequence=number // 3 * 2)
        log.append(data, number // 5, NOW)
        if rng.random() < 0.2:
            log.flush()
            directory.checkpoint()
    if rng.random() < 0.3:
        directory.close()
    after = disk.kill()
    names = [name for name in after.list(HOME) if after.size(f"{HOME}/{name}")]
    for name in rng.sample(names, rng.randint(1, min(6, len(names)))):
        path = f"{HOME}/{name}"
        size = after.size(path)
        match rng.randrange(4):
            case 0:
                after.open(path).truncate(rng.randrange(size))
            case 1:
                after.remove(path)
            case 2:
                after.open(path).write(rng.randrange(size), rng.randbytes(rng.choice((1, 8, 100))))
            case 3:
                for _ in range(5):
                    after.flip(path, rng.randrange(size))
    found = open_directory(after, config)
    assert found.logs[TopicPartition("other", 0)].end_offset == 2
    assert PARTITION in found.logs, found.damaged


def test_a_damaged_segment_without_a_sound_snapshot_costs_only_what_is_in_it() -> None:
    disk, _ = written(30)
    directory = open_directory(disk, CONFIG)
    directory.close()
    names = [name for name in disk.list(HOME) if name.endswith(".snapshot")]
    for name in names:
        disk.open(f"{HOME}/{name}").truncate(3)
    first = next(name for name in disk.list(HOME) if name.endswith(".log"))
    disk.flip(f"{HOME}/{first}", 16)  # the magic of the first batch
    log = reopened(disk.kill(), CONFIG)
    assert log.end_offset == 60
    assert any("not recognized" in finding.action for finding in log.findings)


def test_a_log_that_cannot_be_opened_keeps_its_offsets_and_the_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, CONFIG)
    other = TopicPartition("other", 0)
    directory.create(other, TOPIC_ID, CONFIG)
    log.append(batch(2), 0, NOW)
    log.flush()
    directory.checkpoint()
    real = recovery.open_log

    def open_log(disk: SimulatedDisk, path: str, *rest: Any, **options: Any) -> Log:
        if path == HOME:
            raise ValueError("a file that nobody foresaw")
        return real(disk, path, *rest, **options)

    monkeypatch.setattr(directory_open, "open_log", open_log)
    found = open_directory(disk.kill(), CONFIG)
    assert list(found.logs) == [other]
    assert "nobody foresaw" in found.damaged[PARTITION]
    found.forget_gone()
    found.checkpoint()
    data = found._disk.read_file(f"{DATA}/{RECOVERY_POINT}")
    assert decode_offsets(data)[PARTITION] == 1
