"""The state of all share partitions in one partition of __share_group_state.

In: requests to initialize, read, write, delete and summarise, records read back, deadlines.
Out: outcomes for the runtime, and up to where the log may be deleted.
Always: state changes by `replay_at` alone. A write of an older leader or of another state epoch
changes nothing: a group that was deleted and made again has a lower epoch. Each share partition
has its last snapshot in the log, and all updates after it.
Not here: the leader's side (share_partition.py), which shard a share partition belongs to
(keys.py), the requests themselves (broker/share).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct, field

from barnabas.coordinators.runtime import Encoded, Now, Outcome, ShardReply
from barnabas.coordinators.share.keys import StateKey, StateResult, StateSummary
from barnabas.coordinators.share.records import (
    GROUP_BYTES_MAX,
    NO_COUNT,
    ShareRecord,
    SnapshotRecord,
    StateTombstone,
    UpdateRecord,
    decode,
    encode,
)
from barnabas.coordinators.share.state_batches import STORED, StateBatch, combine
from barnabas.coordinators.share.stored_state import StoredShareState
from barnabas.coordinators.timers import Timer, Timers
from barnabas.model.errors import Code
from barnabas.wire.codec import ProtocolMessage

NO_EPOCH = -1
UNKNOWN_START = -1


class StateLimits(Struct, frozen=True):
    """The broker's options that a shard uses."""

    updates_per_snapshot: int = 500
    prune_interval_ms: int = 300_000
    cold_snapshot_interval_ms: int = 300_000


class StateWrite(NamedTuple):
    """One share partition of a WriteShareGroupState request."""

    key: StateKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    complete_count: int = NO_COUNT


class PruneBelow(NamedTuple):
    """The records below this offset of the shard's log are no longer needed."""

    offset: int


class StateRead(NamedTuple):
    """The state of one share partition, for the leader of its partition."""

    key: StateKey
    code: Code
    state_epoch: int = 0
    start_offset: int = UNKNOWN_START
    batches: tuple[StateBatch, ...] = ()
    message: str = ""


class StateAnswer(ProtocolMessage):
    """What an operation came to; the broker makes a response of it."""

    results: list[StateResult] = field(default_factory=list)
    reads: list[StateRead] = field(default_factory=list)
    summaries: list[StateSummary] = field(default_factory=list)

    def failed(self, code: Code) -> "StateAnswer":
        """The same, where the records could not be written, or not be committed."""
        return StateAnswer(
            results=[StateResult(each.key, each.code or code) for each in self.results],
            reads=[StateRead(each.key, each.code or code) for each in self.reads],
            summaries=[StateSummary(each.key, each.code or code) for each in self.summaries],
        )


TopicExists = Callable[[UUID, int], bool]


class ShareStateShard:
    """Operations take what is asked, the token of the reply, and the time."""

    def __init__(self, limits: StateLimits, exists: TopicExists) -> None:
        """`exists`: whether there is a topic with this id, and this partition of it."""
        self._limits = limits
        self._exists = exists
        self.states: dict[StateKey, StoredShareState] = {}
        self.writes = 0
        self.pruned_to = 0
        self._end = 0  # of the replayed log
        self._busy = False  # written since the last cold snapshots
        self._prune: tuple[int, int] | None = None  # up to where, and what must be committed
        self._timers: Timers[str] = Timers()
        self._pruning = Timer("prune")
        self._cooling = Timer("cool")

    # What the runtime asks

    def encode(self, records: Sequence[ShareRecord]) -> list[Encoded]:
        return [encode(record) for record in records]

    def decode(self, key: bytes, value: bytes | None) -> ShareRecord | None:
        return decode(key, value)

    def replay_at(self, record: ShareRecord, offset: int) -> None:
        self._end = offset + 1
        key = record.key
        if isinstance(record, StateTombstone):
            self.states.pop(key, None)
        elif isinstance(record, SnapshotRecord):
            state = self.states.get(key)
            if state is None:
                state = self.states[key] = StoredShareState()
            state.snapshot(record, offset)
        else:
            # Without a state, its snapshot is further on: the log was pruned up to an older one.
            state = self.states.get(key)
            if state is not None:
                state.update(record)

    def loaded(self, now: Now) -> None:
        self._timers.set(self._pruning, now.ms + self._limits.prune_interval_ms)
        self._timers.set(self._cooling, now.ms + self._limits.cold_snapshot_interval_ms)

    def committed(self, end: int) -> list[PruneBelow]:
        if self._prune is None or end < self._prune[1]:
            return []
        offset, self._prune = self._prune[0], None
        self.pruned_to = offset
        return [PruneBelow(offset)]

    def unloaded(self, parked: tuple[ShardReply, ...]) -> tuple[ShardReply, ...]:
        return _failed(parked, Code.NOT_COORDINATOR)

    def refused(
        self, outcome: Outcome[ShareRecord], code: Code, now: Now
    ) -> tuple[ShardReply, ...]:
        return _failed(outcome.answers, code)

    def due(self, now: Now) -> Outcome[ShareRecord] | None:
        timer = self._timers.pop_due(now.ms)
        if timer is None:
            return None
        if timer is self._cooling:
            self._timers.set(timer, now.ms + self._limits.cold_snapshot_interval_ms)
            return Outcome(self._cold_snapshots(now), divisible=True)
        self._timers.set(timer, now.ms + self._limits.prune_interval_ms)
        needed = min((state.snapshot_offset for state in self.states.values()), default=self._end)
        if needed > self.pruned_to:
            self._prune = (needed, self._end)
        return Outcome()

    def next_deadline(self) -> int | None:
        return self._timers.next_deadline()

    def _cold_snapshots(self, now: Now) -> tuple[ShareRecord, ...]:
        """A share partition that is idle would otherwise keep all newer records of the others."""
        if not self._busy:
            return ()
        self._busy = False
        before = now.wall_ms - self._limits.cold_snapshot_interval_ms
        return tuple(
            self._snapshot(key, state, now)
            for key, state in self.states.items()
            if state.written_ms <= before
        )

    def _snapshot(self, key: StateKey, state: StoredShareState, now: Now) -> SnapshotRecord:
        return SnapshotRecord(
            key,
            state.snapshot_epoch + 1,
            state.state_epoch,
            state.leader_epoch,
            state.start_offset,
            state.created_ms,
            now.wall_ms,
            state.batches,
            state.complete_count,
        )

    # Operations

    def initialize(
        self, keys: Sequence[tuple[StateKey, int, int]], token: object, now: Now
    ) -> Outcome[ShareRecord]:
        """Each key with its state epoch and its start offset; -1: not known yet.

        Without a start offset, the same epoch again changes nothing: the request was repeated.
        """
        records: list[ShareRecord] = []
        results: list[StateResult] = []
        for key, state_epoch, start_offset in keys:
            state = self.states.get(key)
            code, message = self._check(key)
            if not code and state is not None and NO_EPOCH != state_epoch < state.state_epoch:
                code, message = _other_epoch(state.state_epoch, state_epoch)
            if not code and start_offset < UNKNOWN_START:
                code, message = Code.INVALID_REQUEST, f"start offset {start_offset} is below -1"
            results.append(StateResult(key[1:], code, message))
            repeated = state is not None and state.state_epoch == state_epoch
            if code or (repeated and start_offset == UNKNOWN_START):
                continue
            records.append(
                SnapshotRecord(
                    key,
                    0 if state is None else state.snapshot_epoch + 1,
                    state_epoch,
                    0 if state is None else state.leader_epoch,
                    start_offset,
                    now.wall_ms,
                    now.wall_ms,
                    (),
                    NO_COUNT if start_offset == UNKNOWN_START else 0,
                )
            )
        return self._outcome(records, StateAnswer(results=results), token)

    def write(self, writes: Sequence[StateWrite], token: object, now: Now) -> Outcome[ShareRecord]:
        """What leaders have changed. The share partitions of one call are different ones."""
        records: list[ShareRecord] = []
        results: list[StateResult] = []
        for write in writes:
            code, message = self._check_write(write)
            results.append(StateResult(write.key[1:], code, message))
            if not code:
                state = self.states[write.key]
                records.append(self._changed(state, write, state.leader_epoch, now))
        return self._outcome(records, StateAnswer(results=results), token)

    def read(
        self, keys: Sequence[tuple[StateKey, int]], token: object, now: Now
    ) -> Outcome[ShareRecord]:
        """Each key with the epoch of the leader that reads: an older leader writes no more."""
        records: list[ShareRecord] = []
        reads: list[StateRead] = []
        for key, leader_epoch in keys:
            code, message = self._check(key)
            state = self.states.get(key)
            if not code and state is None:
                code, message = Code.INVALID_REQUEST, "the share partition is not initialized"
            elif not code and state is not None and leader_epoch < state.leader_epoch:
                code, message = _older_leader(state.leader_epoch, leader_epoch)
            if code or state is None:
                reads.append(StateRead(key, code, message=message))
                continue
            reads.append(
                StateRead(key, Code.NONE, state.state_epoch, state.start_offset, state.batches)
            )
            if leader_epoch not in (NO_EPOCH, state.leader_epoch):
                write = StateWrite(
                    key,
                    state.state_epoch,
                    leader_epoch,
                    state.start_offset,
                    (),
                    state.complete_count,
                )
                records.append(self._changed(state, write, leader_epoch, now))
        return self._outcome(records, StateAnswer(reads=reads), token)

    def delete(self, keys: Sequence[StateKey], token: object) -> Outcome[ShareRecord]:
        records = [StateTombstone(key) for key in keys if key in self.states]
        results = [StateResult(key[1:], Code.NONE) for key in keys]
        return self._outcome(records, StateAnswer(results=results), token)

    def topics_deleted(self, topic_ids: frozenset[UUID]) -> Outcome[ShareRecord]:
        gone = [StateTombstone(key) for key in self.states if key.topic_id in topic_ids]
        return Outcome(tuple(gone), divisible=True)

    def summarise(self, keys: Sequence[StateKey], token: object) -> Outcome[ShareRecord]:
        summaries = []
        for key in keys:
            code, message = self._check(key)
            state = self.states.get(key)
            if code or state is None:
                summaries.append(StateSummary(key[1:], code, message=message))
            else:
                summaries.append(
                    StateSummary(
                        key[1:],
                        Code.NONE,
                        state.state_epoch,
                        state.leader_epoch,
                        state.start_offset,
                        state.complete_count,
                    )
                )
        return self._outcome([], StateAnswer(summaries=summaries), token)

    def _changed(
        self, state: StoredShareState, write: StateWrite, leader_epoch: int, now: Now
    ) -> ShareRecord:
        # A leader's write may be stored after a later one: the start offset does not go back, and
        # the count belongs to the start offset.
        start = max(state.start_offset, write.start_offset)
        is_older = 0 <= write.start_offset < start
        complete_count = state.complete_count if is_older else write.complete_count
        if state.updates < self._limits.updates_per_snapshot:
            return UpdateRecord(
                write.key,
                state.snapshot_epoch,
                leader_epoch,
                start,
                combine((), write.batches, start),
                complete_count,
            )
        return SnapshotRecord(
            write.key,
            state.snapshot_epoch + 1,
            state.state_epoch,
            leader_epoch,
            start,
            now.wall_ms,
            now.wall_ms,
            combine(state.batches, write.batches, start),
            complete_count,
        )

    def _check(self, key: StateKey) -> tuple[Code, str]:
        if key.partition < 0:
            return Code.INVALID_REQUEST, "the partition is negative"
        if not key.group or len(key.group.encode(errors="surrogatepass")) > GROUP_BYTES_MAX:
            return Code.INVALID_REQUEST, "the group id is empty, or longer than 32767 bytes"
        if not self._exists(key.topic_id, key.partition):
            return Code.UNKNOWN_TOPIC_OR_PARTITION, ""
        return Code.NONE, ""

    def _check_write(self, write: StateWrite) -> tuple[Code, str]:
        state = self.states.get(write.key)
        if state is None:
            return Code.INVALID_REQUEST, "the share partition is not initialized"
        if NO_EPOCH != write.leader_epoch < state.leader_epoch:
            return _older_leader(state.leader_epoch, write.leader_epoch)
        if write.state_epoch not in (NO_EPOCH, state.state_epoch):
            return _other_epoch(state.state_epoch, write.state_epoch)
        for batch in write.batches:
            if (
                not 0 <= batch.first <= batch.last
                or batch.state not in STORED
                or batch.attempts < 0
            ):
                return Code.INVALID_REQUEST, f"{batch} is not a range that can be stored"
        return self._check(write.key)

    def _outcome(
        self, records: Sequence[ShareRecord], answer: StateAnswer, token: object
    ) -> Outcome[ShareRecord]:
        if records:
            self._busy = True
            self.writes += len(records)
        return Outcome(tuple(records), (ShardReply(token, answer),))


def _failed(answers: tuple[ShardReply, ...], code: Code) -> tuple[ShardReply, ...]:
    return tuple(
        ShardReply(token, answer.failed(code))
        for token, answer in answers
        if isinstance(answer, StateAnswer)
    )


def _older_leader(current: int, asked: int) -> tuple[Code, str]:
    return Code.FENCED_LEADER_EPOCH, f"leader epoch {asked}; a leader of epoch {current} exists"


def _other_epoch(current: int, asked: int) -> tuple[Code, str]:
    return Code.FENCED_STATE_EPOCH, f"state epoch {asked}; the share partition has {current}"
