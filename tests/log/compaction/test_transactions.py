"""Compaction of transactional logs: aborted records go, and their markers later.

Random histories with restarts and crashes: tests/simulator/test_log_life.py.
"""

from contextlib import suppress
from random import Random

import pytest

from barnabas.log.compaction.cleanable import look
from barnabas.log.compaction.segment_writer import emptied
from barnabas.log.directory.directory import LogDirectory
from barnabas.log.log import Log
from barnabas.log.transactions.aborted_index import AbortedIndex, AbortedTransaction
from barnabas.log.transactions.append import append_marker, require_guard
from barnabas.model.errors import Corrupt
from barnabas.wire.batch import CONTROL, DELETE_HORIZON, BatchHeader, read_header
from barnabas.wire.control_records import EndMarker, marker_batch
from tests.log.batches import NOW, PARTITION, new_log, open_directory, reopened
from tests.log.compacting import KEYS_BYTES, compact, compacted, keyed, on_disk, put
from tests.share import STRIDE, some
from tests.simulator.disk import Died, SimulatedDisk
from tests.simulator.life_transactions import MARKER_KEYS, committed

P, Q = 7, 8
RETENTION_MS = 1000
SIX_KEYS = 8 * 24  # bytes


def made(**options: object) -> tuple[SimulatedDisk, LogDirectory, Log]:
    disk = SimulatedDisk()
    settings: dict[str, object] = {"delete_retention_ms": RETENTION_MS} | options
    return disk, *new_log(disk, compacted(**settings))


def write(log: Log, producer: int, *pairs: tuple[str, str | None], version_2: bool = False) -> int:
    """In the producer's transaction, which begins if need be."""
    state = log.producers.entries.get(producer)
    epoch = state.epoch if state else 0
    sequence = state.last_sequence + 1 if state else 0
    guard = require_guard(log, producer, epoch, sequence, has_version_2=version_2)
    data = keyed(
        list(pairs),
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    base = log.append(data, 0, NOW, guard=guard).base_offset
    log.advance_high_watermark(log.end_offset)
    return base


def end(log: Log, producer: int, *, commit: bool, coordinator: int = 1, bump: int = 0) -> int:
    state = log.producers.entries.get(producer)
    epoch = (state.epoch if state else 0) + bump
    marker = EndMarker(commit, coordinator)
    offset = append_marker(log, producer, epoch, marker, 2 if bump else 0, 0, NOW).base_offset
    log.advance_high_watermark(log.end_offset)
    return offset


def seal(log: Log) -> None:
    if log.segments[-1].size:
        log.roll(NOW)
    log.flush()


def another_pass(
    disk: SimulatedDisk,
    directory: LogDirectory,
    log: Log,
    wall_ms: int = NOW,
    keys_bytes: int = KEYS_BYTES,
) -> None:
    """With something new, or there would be nothing to do."""
    put(log, (f"new {log.end_offset}", "v"))
    seal(log)
    assert compact(disk, directory, log, wall_ms, keys_bytes=keys_bytes) is not None


def values(log: Log, offset: int | None = None) -> list[tuple[int, str, str | None]]:
    """What a reader of committed records gets."""
    found, _ = committed(log, log.start_offset if offset is None else offset, 1 << 20)
    return [
        (r.offset, (r.key or b"").decode(), None if r.value is None else r.value.decode())
        for r in found
        if not (r.key or b"").startswith(b"new")
    ]


def markers(log: Log) -> list[BatchHeader]:
    return [header for header in on_disk(log) if header.attributes & CONTROL]


def offsets(headers: list[BatchHeader]) -> list[int]:
    return [header.base_offset for header in headers]


def has_index(disk: SimulatedDisk, log: Log) -> bool:
    return any("txnindex" in name for name in disk.list(log.path))


def test_aborted_records_go_and_replace_none_of_their_key() -> None:
    disk, directory, log = made()
    put(log, ("a", "1"), ("b", "2"))
    write(log, P, ("a", "aborted"), ("only here", "aborted"))
    put(log, ("c", "3"))
    end(log, P, commit=False)
    seal(log)
    compact(disk, directory, log)
    assert values(log) == [(0, "a", "1"), (1, "b", "2"), (4, "c", "3")]
    assert [h.record_count for h in on_disk(log)] == [2, 0, 1, 1]  # the last sequence of P stays


def test_committed_records_are_compacted_like_any_others() -> None:
    disk, directory, log = made()
    put(log, ("a", "1"), ("b", "2"))
    write(log, P, ("a", "3"))
    end(log, P, commit=True)
    write(log, P, ("b", "4"), ("c", "5"))
    end(log, P, commit=True)
    put(log, ("c", "6"))
    seal(log)
    compact(disk, directory, log)
    assert values(log) == [(2, "a", "3"), (4, "b", "4"), (7, "c", "6")]


def test_nothing_at_or_above_the_last_stable_offset_is_compacted() -> None:
    disk, directory, log = made()
    put(log, ("a", "1"))
    seal(log)
    write(log, P, ("a", "2"))
    seal(log)
    put(log, ("a", "3"))
    seal(log)
    assert look(log, NOW).dirty_to == 1
    compact(disk, directory, log)
    assert [r.offset for r in committed(log, 0, 1 << 20)[0]] == [0]
    end(log, P, commit=False)
    seal(log)
    compact(disk, directory, log)
    assert values(log) == [(2, "a", "3")]


def test_an_abort_marker_behind_what_is_compacted_counts() -> None:
    """It is in the active segment, and the worker knows of it nevertheless."""
    disk, directory, log = made()
    put(log, ("a", "1"))
    write(log, P, ("a", "aborted"))
    write(log, Q, ("b", "2"))
    seal(log)
    end(log, P, commit=False)
    end(log, Q, commit=True)
    compact(disk, directory, log)
    assert values(log) == [(0, "a", "1"), (2, "b", "2")]
    another_pass(disk, directory, log)
    assert values(log) == [(0, "a", "1"), (2, "b", "2")]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_outlives_its_records_by_the_delete_retention(commit: bool) -> None:
    disk, directory, log = made()
    write(log, P, ("a", "1"))
    marker = end(log, P, commit=commit)
    write(log, P, ("a", "2"))  # so the first batch is not the last of its producer
    last = end(log, P, commit=True)
    seal(log)
    compact(disk, directory, log, NOW + 10)
    assert offsets(markers(log)) == [marker, last]
    assert not markers(log)[0].attributes & DELETE_HORIZON
    another_pass(disk, directory, log, NOW + 20)
    assert offsets(markers(log)) == [marker, last]
    header = markers(log)[0]
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == NOW + 20 + RETENTION_MS
    assert header.max_timestamp == NOW
    assert not has_index(disk, log)  # no record of it is left for a reader to skip
    another_pass(disk, directory, log, NOW + 20 + RETENTION_MS - 1)
    assert markers(log)[0] == header
    another_pass(disk, directory, log, NOW + 20 + RETENTION_MS)
    assert offsets(markers(log)) == [last]
    assert values(log) == [(2, "a", "2")]


def test_records_with_the_keys_of_markers_replace_no_marker() -> None:
    disk, directory, log = made()
    write(log, P, ("a", "1"))
    end(log, P, commit=False)
    write(log, P, ("b", "2"))
    end(log, P, commit=True)
    put(log, *((key.decode(), "x") for key in MARKER_KEYS))
    seal(log)
    for number in range(3):
        another_pass(disk, directory, log, NOW + number)
        assert [each[2] for each in values(log)] == ["2", "x", "x"]
        # The abort has nothing left to end; that it goes is a matter of time.
        assert offsets(markers(log)) == [1, 3]


def test_a_transaction_over_many_groups_of_segments_is_one() -> None:
    disk, directory, log = made(segment_bytes=400)
    put(log, ("a", "committed"))
    for number in range(30):
        write(log, P, (f"key{number}", "x" * 60))
        write(log, Q, (f"key{number}", "aborted" * 9))
        put(log, (f"more{number}", "y" * 60))
    end(log, Q, commit=False)
    end(log, P, commit=True)
    seal(log)
    before = values(log)
    for _ in range(3):
        another_pass(disk, directory, log)
        assert len(log.segments) > 5
        assert values(log) == before
    data = [header for header in on_disk(log) if not header.attributes & CONTROL]
    assert sum(header.record_count for header in data if header.producer_id == Q) == 0


def test_what_a_pass_does_not_reach_keeps_its_entries_in_the_index() -> None:
    disk, directory, log = made(segment_bytes=4000)
    for number in range(12):
        write(log, P + number % 3, (f"key{number}", "aborted"))
        end(log, P + number % 3, commit=False)
        put(log, (f"key{number}", "v"))
    seal(log)
    before = values(log)
    ends = []
    while look(log, NOW).dirty_bytes:
        work = compact(disk, directory, log, keys_bytes=SIX_KEYS)
        assert work is not None
        ends.append(work.end_offset)
        for offset in range(log.end_offset):
            assert values(log, offset) == [each for each in before if each[0] >= offset]
        assert values(reopened(disk.kill(), log.config)) == before
    assert len(ends) > 1


def test_the_marker_of_a_batch_without_records_stays_until_its_producer_is_forgotten() -> None:
    disk, directory, log = made(delete_retention_ms=0)
    write(log, P, ("a", "1"))
    end(log, P, commit=False)
    put(log, ("a", "2"))
    seal(log)
    compact(disk, directory, log)
    for number in range(3):
        another_pass(disk, directory, log, NOW + number)
    assert [(h.base_offset, h.record_count) for h in on_disk(log)][:2] == [(0, 0), (1, 1)]
    again = reopened(disk.kill(), log.config)
    again.advance_high_watermark(again.end_offset)
    assert again.last_stable_offset == again.end_offset
    assert again.producers.entries[P].last_sequence == 0
    log.producers.entries.clear()
    for number in range(3):
        another_pass(disk, directory, log, NOW + 10 + number)
    assert not [h for h in on_disk(log) if h.producer_id == P]
    assert not has_index(disk, log)


def test_a_marker_that_alone_has_the_epoch_of_its_producer_stays() -> None:
    """Or a zombie of the epoch before could write to a replica that was made from this log."""
    disk, directory, log = made(delete_retention_ms=0)
    write(log, P, ("a", "1"), version_2=True)
    end(log, P, commit=True, coordinator=5, bump=1)
    put(log, ("a", "2"))
    seal(log)
    for number in range(4):
        another_pass(disk, directory, log, NOW + number)
    assert offsets([h for h in on_disk(log) if h.producer_id == P]) == [1]
    replica = copied(log)
    assert replica.producers.entries[P].epoch == 1
    assert replica.producers.entries[P].coordinator_epoch == 5
    log.producers.entries.clear()
    for number in range(2):
        another_pass(disk, directory, log, NOW + 10 + number)
    assert not markers(log)


def test_a_marker_that_kafka_has_emptied_still_has_the_epoch() -> None:
    """Kafka empties a marker that it keeps; ours stay whole."""
    disk, directory, log = made(delete_retention_ms=0)
    marker = marker_batch(P, 3, EndMarker(commit=True, coordinator_epoch=1), NOW)
    log.append_fetched(emptied(read_header(marker)), NOW)
    assert log.producers.entries[P].epoch == 3
    log.advance_high_watermark(log.end_offset)
    seal(log)
    another_pass(disk, directory, log)
    assert offsets(markers(log)) == [0]
    log.producers.entries.clear()
    another_pass(disk, directory, log)
    assert not markers(log)


def copied(log: Log) -> Log:
    """A replica that fetches all of it."""
    replica = new_log(SimulatedDisk(), log.config)[1]
    while replica.end_offset < log.end_offset:
        part = log.read_for_copy(max(replica.end_offset, log.start_offset), 500).file_slice
        if part is None:
            replica.skip_to(log.end_offset)
            break
        replica.append_fetched(part.file.read(part.position, part.length), NOW)
    replica.advance_high_watermark(log.high_watermark)
    return replica


# An index that does not fit


def index_of(disk: SimulatedDisk, log: Log) -> AbortedIndex:
    return AbortedIndex(disk, log.segments[0].aborted_path)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([], "aborted at 1 is missing"),
        ([AbortedTransaction(P, 0, 1, 2), AbortedTransaction(P, 2, 3, 4)], "is committed"),
        ([AbortedTransaction(P, 0, 3, 4)], "its transaction ends at 1"),
    ],
)
def test_an_index_that_does_not_fit_the_markers_stops_compaction(
    entries: list[AbortedTransaction], problem: str
) -> None:
    disk, directory, log = made()
    write(log, P, ("a", "aborted"))
    end(log, P, commit=False)
    write(log, P, ("a", "committed"))
    end(log, P, commit=True)
    seal(log)
    index_of(disk, log).replace(entries, sync=True)
    log.segments[0].reload_aborted()
    before = disk.read_file(log.segments[0].path)
    with pytest.raises(Corrupt, match=problem):
        compact(disk, directory, log)
    assert disk.read_file(log.segments[0].path) == before
    assert not [name for name in disk.list(log.path) if "cleaned" in name]


# Crashes, truncations, replicas


def busy_log() -> tuple[SimulatedDisk, LogDirectory, Log]:
    disk, directory, log = made(segment_bytes=500, delete_retention_ms=0)
    for number in range(8):
        put(log, (f"key{number % 3}", "plain" * 4))
        write(log, P + number % 2, (f"key{number % 3}", f"{number}" * 20))
        write(log, Q + 2, (f"key{number % 4}", "aborted" * 4))
        if number % 3 == 2:
            end(log, Q + 2, commit=False)
        if number % 2:
            end(log, P, commit=number % 4 == 1)
            end(log, Q, commit=number % 4 == 3)
    end(log, Q + 2, commit=False)
    seal(log)
    return disk, directory, log


@pytest.mark.parametrize("way", ["killed", "power lost"])
def test_a_crash_at_any_step_leaves_readers_what_they_had(way: str) -> None:
    """The files and their index change together, for readers; each pass drops more."""
    step = 0
    while True:
        disk, directory, log = busy_log()
        compact(disk, directory, log, NOW, keys_bytes=SIX_KEYS)  # so the next one finds entries
        put(log, ("z", "z"))
        seal(log)
        directory.checkpoint()
        before = values(log)
        latest = {key: each for *each, key in ((o, v, k) for o, k, v in before)}
        disk.stop_at = disk.steps + step
        died = True
        with suppress(Died):
            compact(disk, directory, log, NOW + 1)
            died = False
        rng = Random(step)
        after = disk.kill() if way == "killed" else disk.crash(rng)
        found = open_directory(after, log.config).logs[PARTITION]
        found.advance_high_watermark(found.end_offset)
        assert found.last_stable_offset == found.end_offset
        left = values(found)
        assert set(left) <= set(before), step
        assert {key: each for *each, key in ((o, v, k) for o, k, v in left)} == latest, step
        for offset in some(range(found.end_offset)):
            assert values(found, offset) == [each for each in left if each[0] >= offset], step
        if not died:
            break
        step += STRIDE
    assert step > 20


def test_an_interrupted_swap_leaves_no_aborted_transaction_behind_a_truncation() -> None:
    """The first index has entries of later segments by then. Those are cut with their markers."""
    disk, directory, log = made()
    put(log, ("a", "1"))
    seal(log)
    put(log, ("b", "2"))
    seal(log)
    first = write(log, P, ("a", "3"))
    marker = end(log, P, commit=False)
    seal(log)
    index_of(disk, log).replace(log.segments[2].aborted, sync=True)  # as the first step leaves it
    log.segments[0].reload_aborted()
    log.truncate_to(marker)
    end(log, P, commit=True)
    assert values(log) == [(0, "a", "1"), (1, "b", "2"), (first, "a", "3")]
    directory.checkpoint()
    again = reopened(disk.kill(), log.config)
    again.advance_high_watermark(again.end_offset)
    assert values(again) == values(log)


def hanging_log() -> tuple[SimulatedDisk, LogDirectory, Log]:
    """A snapshot has a transaction open whose marker, in the segment behind it, is compacted."""
    disk, directory, log = made(segment_bytes=1000, delete_retention_ms=0)
    put(log, ("x", "y" * 900))
    seal(log)
    write(log, P, ("a", "aborted"))
    seal(log)
    put(log, ("y", "y" * 500))
    marker = end(log, P, commit=False)
    put(log, ("b", "1"))
    put(log, ("c", "2"))
    write(log, P, ("d", "3"))
    end(log, P, commit=True)
    seal(log)
    for number in range(4):
        another_pass(disk, directory, log, NOW + number)
    assert marker not in offsets(markers(log))
    assert log.last_stable_offset == log.end_offset
    return disk, directory, log


def test_a_truncation_opens_no_transaction_whose_marker_is_compacted() -> None:
    _, _, log = hanging_log()
    snapshot = log.snapshots.load_newest(5, [])[0]
    assert snapshot.entries[P].transaction_start >= 0  # or this shows nothing
    log.truncate_to(5)
    assert log.last_stable_offset == log.high_watermark == 5


def test_a_recovery_opens_no_transaction_whose_marker_is_compacted() -> None:
    disk, _, log = hanging_log()
    after = disk.kill()
    for name in after.list(log.path):
        if name.endswith(".snapshot") and int(name[:20]) > 2:
            after.remove(f"{log.path}/{name}")
    found = reopened(after, log.config)
    found.advance_high_watermark(found.end_offset)
    assert found.last_stable_offset == found.end_offset
    assert values(found) == values(log)


@pytest.mark.parametrize("seed", range(12))
def test_a_replica_of_a_compacted_log_gives_its_readers_the_same(seed: int) -> None:
    rng = Random(seed)
    disk, directory, log = made(segment_bytes=rng.choice((400, 1500)))
    for round_ in range(4):
        for _ in range(30):
            producer = rng.randrange(4)
            state = log.producers.entries.get(producer)
            if rng.random() < 0.3:
                put(log, (f"key{rng.randrange(9)}", "plain"))
            elif rng.random() < 0.6:
                key = rng.choice((f"key{rng.randrange(9)}", MARKER_KEYS[0].decode()))
                write(log, producer, (key, f"{log.end_offset}"))
            elif state is not None:
                end(log, producer, commit=rng.random() < 0.5, bump=int(rng.random() < 0.3))
        for producer, state in tuple(log.producers.entries.items()):
            if state.transaction_start >= 0:
                end(log, producer, commit=rng.random() < 0.5)
        seal(log)
        before = values(log)
        compact(
            disk, directory, log, NOW + round_ * RETENTION_MS, keys_bytes=rng.choice((192, 9999))
        )
        left = values(log)
        assert set(left) <= set(before)
        replica = copied(log)
        assert values(replica) == left
        assert replica.last_stable_offset == log.last_stable_offset
        for producer, state in log.producers.entries.items():
            known = replica.producers.entries[producer]
            assert (known.epoch, known.last_sequence) == (state.epoch, state.last_sequence)
