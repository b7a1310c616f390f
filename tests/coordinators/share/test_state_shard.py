"""The share coordinator: what it stores, whom it refuses, and what it deletes."""

from uuid import UUID

import pytest

from barnabas.coordinators.ports import Now, Outcome, ShardReply
from barnabas.coordinators.share.keys import StateKey
from barnabas.coordinators.share.records import ShareRecord, SnapshotRecord, UpdateRecord
from barnabas.coordinators.share.state_batches import StateBatch
from barnabas.coordinators.share.state_shard import (
    PruneBelow,
    ShareStateShard,
    StateAnswer,
    StateLimits,
    StateWrite,
)
from barnabas.model.errors import Code

TOPIC = UUID(int=7)
KEY = StateKey("g", TOPIC, 0)
OTHER = StateKey("g", TOPIC, 1)
NOW = Now(0, 1_000)


class Log:
    """Writes what a shard returns, and reads it back from any offset."""

    def __init__(self, limits: StateLimits | None = None) -> None:
        self.limits = limits or StateLimits(updates_per_snapshot=3)
        self.records: list[tuple[bytes, bytes | None]] = []
        self.shard = self.load(0)

    def load(self, start: int) -> ShareStateShard:
        shard = ShareStateShard(self.limits, lambda topic, partition: topic == TOPIC)
        for offset in range(start, len(self.records)):
            record = shard.decode(*self.records[offset])
            assert record is not None
            shard.replay_at(record, offset)
        shard.loaded(NOW)
        return shard

    def run(self, outcome: Outcome[ShareRecord]) -> StateAnswer:
        for record, encoded in zip(
            outcome.records, self.shard.encode(outcome.records), strict=True
        ):
            self.records.append(encoded)
            self.shard.replay_at(record, len(self.records) - 1)
        if not outcome.answers:
            return StateAnswer()
        ((_, answer),) = outcome.answers
        assert isinstance(answer, StateAnswer)
        return answer

    def initialize(self, key: StateKey = KEY, epoch: int = 1, start: int = -1) -> Code:
        outcome = self.shard.initialize([(key, epoch, start)], "t", NOW)
        return self.run(outcome).results[0].code

    def write(
        self, *batches: StateBatch, key: StateKey = KEY, epoch: int = 1, leader: int = 0
    ) -> Code:
        write = StateWrite(key, epoch, leader, 0, batches, 1)
        return self.run(self.shard.write([write], "t", NOW)).results[0].code

    def batches(self, key: StateKey = KEY) -> tuple[StateBatch, ...]:
        return self.shard.states[key].batches


def test_what_is_written_is_read_back() -> None:
    log = Log()
    assert log.initialize() is Code.NONE
    assert log.write(StateBatch(0, 4, 2, 1)) is Code.NONE
    assert log.write(StateBatch(5, 9, 2, 1), StateBatch(20, 20, 0, 2)) is Code.NONE
    (read,) = log.run(log.shard.read([(KEY, 0)], "t", NOW)).reads
    assert (read.state_epoch, read.start_offset) == (1, 0)
    assert read.batches == (StateBatch(0, 9, 2, 1), StateBatch(20, 20, 0, 2))


def test_after_enough_updates_a_snapshot_is_written() -> None:
    log = Log()
    log.initialize()
    for offset in range(5):
        log.write(StateBatch(offset * 2, offset * 2, 2, 1))
    kinds = [type(log.shard.decode(*record)) for record in log.records]
    assert kinds == [SnapshotRecord, *[UpdateRecord] * 3, SnapshotRecord, UpdateRecord]
    assert log.load(0).states[KEY].batches == log.batches()
    assert log.load(4).states[KEY].batches == log.batches()


def test_an_older_leader_cannot_write_once_a_newer_one_has_read() -> None:
    log = Log()
    log.initialize()
    assert log.run(log.shard.read([(KEY, 3)], "t", NOW)).reads[0].code is Code.NONE
    assert log.write(StateBatch(0, 0, 2, 1), leader=2) is Code.FENCED_LEADER_EPOCH
    assert log.run(log.shard.read([(KEY, 2)], "t", NOW)).reads[0].code is Code.FENCED_LEADER_EPOCH
    assert log.write(StateBatch(0, 0, 2, 1), leader=3) is Code.NONE


def test_a_leader_that_did_not_hear_of_altered_offsets_cannot_write() -> None:
    log = Log()
    log.initialize(epoch=1)
    log.write(StateBatch(0, 0, 2, 1))
    assert log.initialize(epoch=2, start=50) is Code.NONE
    assert log.write(StateBatch(1, 1, 2, 1), epoch=1) is Code.FENCED_STATE_EPOCH
    assert log.batches() == ()
    assert log.shard.states[KEY].start_offset == 50
    assert log.initialize(epoch=1) is Code.FENCED_STATE_EPOCH


def test_a_leader_with_the_state_of_a_deleted_group_cannot_write_into_the_new_one() -> None:
    log = Log()
    log.initialize(epoch=7)
    log.run(log.shard.delete([KEY], "t"))
    log.initialize(epoch=1)
    assert log.write(StateBatch(0, 0, 2, 1), epoch=7) is Code.FENCED_STATE_EPOCH
    assert log.write(StateBatch(0, 0, 2, 1), epoch=1) is Code.NONE


def test_a_repeated_initialization_keeps_the_state() -> None:
    log = Log()
    log.initialize()
    log.write(StateBatch(0, 0, 2, 1))
    records = len(log.records)
    assert log.initialize() is Code.NONE
    assert (len(log.records), log.batches()) == (records, (StateBatch(0, 0, 2, 1),))


def test_a_share_partition_that_is_not_initialized_is_an_invalid_request() -> None:
    log = Log()
    assert log.write(StateBatch(0, 0, 2, 1)) is Code.INVALID_REQUEST
    assert log.run(log.shard.read([(KEY, 0)], "t", NOW)).reads[0].code is Code.INVALID_REQUEST
    summary = log.run(log.shard.summarise([KEY], "t")).summaries[0]
    assert (summary.code, summary.start_offset) == (Code.NONE, -1)


@pytest.mark.parametrize(
    "batch", [StateBatch(3, 2, 2, 1), StateBatch(0, 1, 1, 1), StateBatch(-1, 1, 2, 1)]
)
def test_a_range_that_cannot_be_stored_is_refused(batch: StateBatch) -> None:
    log = Log()
    log.initialize()
    assert log.write(batch) is Code.INVALID_REQUEST


def test_an_unknown_topic_is_refused() -> None:
    log = Log()
    assert log.initialize(StateKey("g", UUID(int=9), 0)) is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_state_is_gone_after_a_restart() -> None:
    log = Log()
    log.initialize()
    log.initialize(OTHER)
    log.run(log.shard.delete([KEY, StateKey("g", TOPIC, 5)], "t"))
    assert list(log.load(0).states) == [OTHER]
    log.run(log.shard.topics_deleted(frozenset({TOPIC})))
    assert not log.load(0).states


def test_an_idle_share_partition_does_not_stop_pruning() -> None:
    """And the state after a restart is the same as before, wherever the log begins."""
    log = Log(StateLimits(3, prune_interval_ms=100, cold_snapshot_interval_ms=100))
    log.initialize(OTHER)
    log.write(StateBatch(7, 7, 2, 1), key=OTHER)
    log.initialize()
    for offset in range(10):
        log.write(StateBatch(offset * 2, offset * 2, 2, 1))
    pruned = 0
    for ms in range(100, 500, 100):
        while (outcome := log.shard.due(Now(ms, 1_000 + ms))) is not None:
            log.run(outcome)
        for effect in log.shard.committed(len(log.records)):
            assert isinstance(effect, PruneBelow)
            pruned = effect.offset
        log.write(StateBatch(100 + ms, 100 + ms, 2, 1))
        loaded = log.load(pruned)
        for key in (KEY, OTHER):
            assert loaded.states[key].batches == log.batches(key)
            assert loaded.states[key].start_offset == log.shard.states[key].start_offset
    assert pruned > 10


def test_nothing_is_pruned_before_the_snapshots_are_committed() -> None:
    log = Log(StateLimits(3, prune_interval_ms=100))
    log.initialize()
    for offset in range(5):
        log.write(StateBatch(offset, offset, 2, 1))
    assert log.shard.due(Now(100, 1_100)) is not None
    assert log.shard.committed(len(log.records) - 1) == []
    assert log.shard.committed(len(log.records)) == [PruneBelow(4)]


def test_a_write_that_the_log_refuses_is_refused() -> None:
    log = Log()
    log.initialize()
    outcome = log.shard.write([StateWrite(KEY, 1, 0, 0, (StateBatch(0, 0, 2, 1),))], "t", NOW)
    (reply,) = log.shard.refused(outcome, Code.NOT_ENOUGH_REPLICAS, NOW)
    assert isinstance(reply.response, StateAnswer)
    assert reply.response.results[0].code is Code.NOT_ENOUGH_REPLICAS
    parked = (ShardReply("t", StateAnswer(results=reply.response.results)),)
    assert len(log.shard.unloaded(parked)) == 1


@pytest.mark.parametrize("updates_per_snapshot", [3, 1])
def test_a_write_that_is_stored_after_a_later_one_does_not_move_the_start_back(
    updates_per_snapshot: int,
) -> None:
    log = Log(StateLimits(updates_per_snapshot))
    log.initialize()
    for start, complete, first in ((20, 2, 25), (10, 7, 12)):
        write = StateWrite(KEY, 1, 0, start, (StateBatch(first, first + 10, 2, 1),), complete)
        assert log.run(log.shard.write([write], "t", NOW)).results[0].code is Code.NONE
    for shard in (log.shard, log.load(0)):
        state = shard.states[KEY]
        assert (state.start_offset, state.complete_count) == (20, 2)
        assert state.batches == (StateBatch(20, 22, 2, 1), StateBatch(25, 35, 2, 1))
    assert log.initialize(epoch=2, start=5) is Code.NONE
    assert log.shard.states[KEY].start_offset == 5
