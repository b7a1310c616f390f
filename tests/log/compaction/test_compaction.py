"""The last value of each key survives; offsets, order and the bytes of records stay."""

from contextlib import suppress
from random import Random

import pytest

from barnabas.log.compaction.cleanable import Cleanable, dirtiest, look, may_be_due
from barnabas.log.config import LogConfig
from barnabas.log.directory.directory import LogDirectory
from barnabas.log.log import Log
from barnabas.model.errors import Code, Corrupt, Failed, InvalidRequest
from barnabas.wire.batch import DELETE_HORIZON, check_crc, read_header
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, encode_batch
from tests.log.batches import NOW, PARTITION, new_log, open_directory, reopened
from tests.log.compacting import compact, compacted, contents, keyed, on_disk, put, stored
from tests.share import STRIDE
from tests.simulator.disk import Died, SimulatedDisk


def made(**options: object) -> tuple[SimulatedDisk, LogDirectory, Log]:
    disk = SimulatedDisk()
    return disk, *new_log(disk, compacted(**options))


def seal(log: Log, time: int = NOW) -> None:
    """All so far in segments that may be compacted."""
    if log.segments[-1].size:
        log.roll(time)
    log.flush()


def put_alone(log: Log, *pairs: tuple[str, str | None], time: int = NOW) -> None:
    """In a segment of its own."""
    put(log, *pairs, time=time)
    seal(log, time)


def next_of(log: Log, wall_ms: int) -> Cleanable | None:
    return dirtiest([look(log, wall_ms)] if may_be_due(log) else [])


def values(log: Log) -> list[tuple[int, str, str | None]]:
    return [
        (r.offset, (r.key or b"").decode(), None if r.value is None else r.value.decode())
        for r in contents(log)
    ]


@pytest.mark.parametrize("codec", Codec)
def test_the_last_value_of_each_key_survives_at_its_offset(codec: Codec) -> None:
    disk, directory, log = made()
    put(log, ("a", "1"), ("b", "2"), ("a", "3"), codec=codec)
    put(log, ("c", "4"), ("b", "5"), codec=codec)
    seal(log)
    put(log, ("a", "6"))
    compact(disk, directory, log)
    assert values(log) == [(2, "a", "3"), (3, "c", "4"), (4, "b", "5"), (5, "a", "6")]
    for header, batch in stored(log):
        check_crc(batch, header)


def test_a_batch_of_which_all_survives_stays_byte_for_byte() -> None:
    disk, directory, log = made(segment_bytes=2000)
    put(log, ("a", "1"), ("b", "2"))
    put(log, ("c", "3"))
    before = [batch for _, batch in stored(log)]
    seal(log)
    compact(disk, directory, log)
    assert [batch for _, batch in stored(log)] == before


def test_a_batch_that_loses_some_keeps_its_offsets_and_its_last_sequence() -> None:
    disk, directory, log = made()
    put(log, ("a", "1"), ("b", "2"), ("a", "3"), producer_id=7, producer_epoch=1, base_sequence=0)
    seal(log)
    compact(disk, directory, log)
    header, _ = next(stored(log))
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 2, 2)
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (7, 0, 2)


def test_the_last_batch_of_an_active_producer_stays_without_its_records() -> None:
    disk, directory, log = made()
    put(log, ("a", "1"), producer_id=7, producer_epoch=1, base_sequence=0)
    put(log, ("a", "2"), producer_id=7, producer_epoch=1, base_sequence=1)
    put(log, ("a", "3"))
    put(log, ("b", "4"))
    seal(log)
    compact(disk, directory, log)
    empty = [header for header in on_disk(log) if not header.record_count]
    assert [(each.producer_id, each.base_sequence, each.base_offset) for each in empty] == [
        (7, 1, 1)
    ]
    state = reopened(disk.kill(), log.config).producers.entries[7]
    assert (state.epoch, state.last_sequence) == (1, 1)
    # Once the producer is forgotten, so is its batch.
    log.producers.entries.clear()
    put(log, ("c", "5"))
    seal(log)
    compact(disk, directory, log)
    assert not [header for header in on_disk(log) if header.producer_id == 7]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_first_batch_of_a_leader_epoch_stays_without_its_records(codec: Codec) -> None:
    """A replica that copies the log learns epochs from batches. Without this one it would say that
    epoch 0 ends at offset 3, and another replica would keep its own, uncommitted offset 2."""
    disk, directory, log = made()
    for epoch, pair in enumerate([("a", "1"), ("a", "2"), ("a", "3"), ("b", "4")]):
        log.begin_epoch(epoch)
        for _ in range(2):
            log.append(keyed([pair], codec=codec), epoch, NOW)
    log.advance_high_watermark(log.end_offset)
    seal(log)
    for _ in range(2):
        log.append(keyed([("c", "5")]), 3, NOW)
        log.advance_high_watermark(log.end_offset)
        seal(log)
        compact(disk, directory, log)
        empty = [header for header in on_disk(log) if not header.record_count]
        assert [(each.leader_epoch, each.base_offset) for each in empty] == [
            (1, 2),
            (2, 4),
            (3, 6),
        ]


def test_a_tombstone_stays_until_its_delete_horizon() -> None:
    disk, directory, log = made(delete_retention_ms=1000, segment_bytes=200)
    put(log, ("a", "1"))
    put(log, ("a", None), ("b", "2"), time=NOW + 5)
    seal(log)
    compact(disk, directory, log, NOW + 10)
    assert values(log) == [(1, "a", None), (2, "b", "2")]
    header, batch = next(stored(log))
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == NOW + 1010
    assert [record.timestamp for record in contents(log)] == [NOW + 5, NOW + 6]
    put(log, ("c", "3"))
    seal(log)
    compact(disk, directory, log, NOW + 1009)
    assert values(log)[0] == (1, "a", None)  # a day not yet over
    assert next(stored(log))[1] == batch  # and the horizon is not moved
    put(log, ("c", "4"))
    seal(log)
    compact(disk, directory, log, NOW + 1010)
    assert values(log) == [(2, "b", "2"), (4, "c", "4")]


def test_a_log_cut_where_compaction_left_nothing_ends_there() -> None:
    """Or a follower that is told to cut it would do so again and again."""
    disk, directory, log = made(delete_retention_ms=1000, segment_bytes=1000)
    put_alone(log, ("a", "1"))
    for _ in range(3):
        put_alone(log, ("gone", None))
    compact(disk, directory, log, NOW)
    put_alone(log, ("b", 900 * "2"))  # too large for the segment before it
    compact(disk, directory, log, NOW + 1001)
    put(log, ("c", "3"))
    assert [offset for offset, _, _ in values(log)] == [0, 4, 5]
    log.truncate_to(2)
    assert log.end_offset == log.segments[-1].next_offset == 2
    directory.checkpoint()
    assert put(log, ("d", "4")) == 2
    assert values(log) == [(0, "a", "1"), (2, "d", "4")]
    assert values(reopened(disk.kill(), log.config)) == values(log)


def test_a_key_that_is_written_again_outlives_its_tombstone() -> None:
    disk, directory, log = made(delete_retention_ms=0, segment_bytes=200)
    put(log, ("a", "1"))
    put(log, ("a", None))
    put(log, ("a", "2"))
    seal(log)
    for wall_ms in (NOW, NOW + 1):
        compact(disk, directory, log, wall_ms)
        put(log, ("z", "z"))
        seal(log)
    assert [each for each in values(log) if each[1] == "a"] == [(2, "a", "2")]


def test_small_segments_become_one_and_the_active_one_is_untouched() -> None:
    disk, directory, log = made(segment_bytes=600)
    for number in range(20):
        put_alone(log, (f"key{number % 3}", "x" * 80))
    put(log, ("active", "1"))
    active = log.segments[-1]
    before = disk.read_file(active.path)
    compact(disk, directory, log)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9, 12, 15, 18, 20]
    assert disk.read_file(active.path) == before
    # What is left of one pass is merged in the next.
    seal(log)
    compact(disk, directory, log)
    assert [segment.base_offset for segment in log.segments] == [0, 21]
    assert log.size == sum(segment.size for segment in log.segments)


def test_a_full_table_ends_a_pass_early_and_the_next_goes_on_there() -> None:
    disk, directory, log = made(segment_bytes=300)
    for number in range(60):
        put(log, (f"key{number % 20}", f"{number}"))
    seal(log)
    ends = []
    for _ in range(20):
        work = compact(disk, directory, log, keys_bytes=8 * 24)  # room for six keys
        if work is None:
            break
        ends.append(work.end_offset)
        assert work.keys <= 6
    assert ends == sorted(set(ends))
    assert ends[-1] == 60
    last = {f"key{number % 20}": str(number) for number in range(60)}
    assert {key: value for _, key, value in values(log)} == last


def test_a_batch_with_more_keys_than_the_table_takes_is_refused_with_the_remedy() -> None:
    disk, directory, log = made()
    put(log, *((f"key{number}", "v") for number in range(7)))
    seal(log)
    with pytest.raises(Failed, match=r"raise log\.cleaner\.dedupe\.buffer\.size"):
        compact(disk, directory, log, keys_bytes=8 * 24)


def test_readers_meet_no_reply_without_records_and_still_come_to_the_end() -> None:
    """librdkafka takes ten such replies in a row for a record too large for it."""
    disk, directory, log = made(segment_bytes=200)
    for number in range(20):
        put(log, ("a", "x" * 60), producer_id=number, producer_epoch=0, base_sequence=0)
        seal(log)
    put(log, ("b", "1"))
    put(log, ("b", "2"))
    seal(log)
    compact(disk, directory, log)
    assert len([header for header in on_disk(log) if not header.record_count]) == 19
    assert [header.record_count for header, _ in stored(log)] == [1, 1]
    put(log, ("b", "3"))
    put(log, ("c", "4"), producer_id=77, producer_epoch=0, base_sequence=0)
    put(log, ("c", "5"))
    seal(log)
    compact(disk, directory, log)
    log.delete_before(24)
    put(log, ("c", "6"))
    seal(log)
    compact(disk, directory, log)
    assert values(log) == [(25, "c", "6")]
    again = reopened(disk.kill(), log.config)
    assert values(again) == [(25, "c", "6")]
    # Nothing but batches without records is left before the end: the last of them leads there.
    log.config.delete_retention_ms = 0
    put(log, ("c", None))
    seal(log)
    compact(disk, directory, log)
    put(log, ("d", None))
    seal(log)
    compact(disk, directory, log)
    log.delete_before(26)
    found = log.read(26, 1 << 20, log.end_offset)
    assert found.next_offset == log.end_offset
    assert found.file_slice is not None


def test_a_copy_of_the_log_gets_the_batches_without_records() -> None:
    """Or it would not know the last sequence of their producers."""
    disk, directory, log = made(segment_bytes=200)
    for number in range(5):
        put(log, ("a", "x" * 60), producer_id=number, producer_epoch=0, base_sequence=0)
        seal(log)
    compact(disk, directory, log)
    replica = new_log(SimulatedDisk(), log.config)[1]
    while replica.end_offset < log.end_offset:
        part = log.read_for_copy(replica.end_offset, 1 << 20).file_slice
        assert part is not None
        replica.append_fetched(part.file.read(part.position, part.length), NOW)
    assert on_disk(replica) == on_disk(log)
    assert replica.producers.entries == log.producers.entries


def test_records_too_young_are_left_alone() -> None:
    disk, directory, log = made(min_compaction_lag_ms=1000, segment_bytes=200)
    for number in range(6):
        put_alone(log, ("a", f"{number}"), time=NOW + number * 100)
    assert compact(disk, directory, log, NOW + 999) is None
    compact(disk, directory, log, NOW + 1250)
    assert [offset for offset, _, _ in values(log)] == [2, 3, 4, 5]


def test_the_dirtiest_log_is_next_with_the_reason() -> None:
    disk, _, log = made(min_cleanable_dirty_ratio=0.5, segment_bytes=200)
    for _ in range(3):
        put_alone(log, ("a", "1"))
    found = next_of(log, NOW)
    assert found is not None
    assert found.due == "100% is dirty, min.cleanable.dirty.ratio = 0.5"
    log.cleaned_to = 2
    assert look(log, NOW).dirty_ratio == pytest.approx(1 / 3, abs=0.01)
    assert next_of(log, NOW) is None  # not dirty enough
    log.config.max_compaction_lag_ms = 1000
    found = next_of(log, NOW + 1500)
    assert found is not None
    assert found.due == "records wait for 1500 ms, max.compaction.lag.ms = 1000"
    log.config.compacted = False
    assert next_of(log, NOW + 1500) is None
    assert disk.exists(log.path)


def test_a_record_without_a_key_is_refused_by_a_compacted_log() -> None:
    disk, directory, log = made()
    for codec in Codec:
        records = [Record(0, NOW, b"k", b"v"), Record(1, NOW, None, b"v")]
        data = memoryview(encode_batch(records, codec=codec))
        with pytest.raises(InvalidRequest, match="record 1 of the batch: it has no key") as refused:
            log.append(data, 0, NOW)
        assert refused.value.code is Code.INVALID_RECORD
    log.config = LogConfig()
    assert log.append(data, 0, NOW).base_offset == 0
    # Compacted from now on: what has no key cannot stay.
    log.config = compacted()
    log.advance_high_watermark(log.end_offset)
    seal(log)
    compact(disk, directory, log)
    assert values(log) == [(0, "k", "v")]


def test_a_damaged_batch_stops_compaction_and_stays_as_it_is() -> None:
    disk, directory, log = made()
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    seal(log)
    path = log.segments[0].path
    disk.flip(path, 65)
    before = disk.read_file(path)
    with pytest.raises(Corrupt, match="checksum"):
        compact(disk, directory, log)
    assert disk.read_file(path) == before
    assert not [name for name in disk.list(log.path) if "cleaned" in name]


def test_segments_that_went_meanwhile_are_not_brought_back() -> None:
    disk, directory, log = made(segment_bytes=200)
    for number in range(6):
        put(log, (f"{number}", "v"))
    seal(log)
    deleted: list[int] = []

    def pause(size: int) -> None:
        if not deleted:
            deleted.append(size)
            log.delete_before(3)
            directory.checkpoint()

    compact(disk, directory, log, pause=pause)
    assert [offset for offset, _, _ in values(log)] == [3, 4, 5]
    assert log.cleaned_to == 0
    assert not [name for name in disk.list(log.path) if "cleaned" in name or "swap" in name]
    assert [o for o, _, _ in values(reopened(disk.kill(), log.config))] == [3, 4, 5]


def test_a_reader_in_the_middle_of_a_compacted_segment_finishes() -> None:
    disk, directory, log = made()
    put(log, ("a", "1"), ("a", "2"))
    seal(log)
    part = log.read(0, 1 << 20, log.end_offset).file_slice
    assert part is not None
    before = part.file.read(part.position, part.length)
    compact(disk, directory, log)
    for path in directory.take_removals(0) + directory.take_removals(10**9):
        disk.remove(path)
    assert part.file.read(part.position, part.length) == before
    assert read_header(before).record_count == 2


@pytest.mark.parametrize("end", ["killed", "power lost"])
def test_hazard_28_a_crash_at_any_step_of_compaction_loses_nothing(end: str) -> None:
    """Between `.cleaned`, `.swap` and the renames, and again in the start that mends it."""
    step = 0
    while True:
        disk, directory, log = made(segment_bytes=300, delete_retention_ms=0)
        for number in range(12):
            put(log, (f"key{number % 4}", f"{number}" * 20))
        put(log, ("key0", None))
        seal(log)
        put(log, ("active", "1"))
        log.flush()
        directory.checkpoint()
        before = contents(log)
        disk.stop_at = disk.steps + step
        died = True
        with suppress(Died):
            compact(disk, directory, log, NOW)
            died = False
        rng = Random(step)
        after = disk.kill() if end == "killed" else disk.crash(rng)
        # The start that mends it may die too.
        after.stop_at = after.steps + rng.randint(0, 8)
        with suppress(Died):
            open_directory(after, log.config)
        after.stop_at = -1
        after = after.kill() if end == "killed" else after.crash(rng)
        again = open_directory(after, log.config).logs[PARTITION]
        left = contents(again)
        assert set(left) <= set(before), step
        newest = {record.key: record for record in before}
        assert {record.key: record for record in left} == newest, step
        assert again.end_offset == log.end_offset
        names = after.list(again.path)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        if not died:
            assert left == contents(log)
            break
        step += STRIDE
    assert step > 20


def test_offsets_that_compaction_left_out_are_no_damage_whatever_the_policy_is_now() -> None:
    disk, directory, log = made()
    for number in range(20):
        put(log, ("a", f"{number}" * 20))
    seal(log)
    put(log, ("b", "1"))
    compact(disk, directory, log)
    kept = values(log)
    after = disk.kill()
    after.remove("/data/recovery-point-offset-checkpoint")  # so all is checked
    again = open_directory(after, LogConfig()).logs[PARTITION]
    assert values(again) == kept
    assert keyed([("a", "1")])
