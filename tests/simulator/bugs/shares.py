"""Bugs with share groups, at the seams between members, leaders and share coordinators.

The hazards are those of the list that share groups were built against: Q1 and so on.
"""

from typing import Any

from msgspec import structs

from barnabas.broker.share.partitions import LoadedShare, LoadedShares
from barnabas.client.share.held_messages import HeldMessages
from barnabas.coordinators.runtime import Runtime
from barnabas.coordinators.share.records import UpdateRecord
from barnabas.coordinators.share.runs import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from barnabas.coordinators.share.share_partition import SharePartition
from barnabas.coordinators.share.state_shard import PruneBelow, ShareStateShard
from barnabas.model.errors import Code
from tests.simulator.bugs.planting import Change, bug


@bug(shares=True, brokers=None)
def confirms_acknowledgements_at_once() -> list[Change]:
    """Q20: a member is told that a record is finished before that is stored."""
    real = LoadedShare.carry_out

    def carry_out(self: Any, change: Any, done: Any = None) -> None:
        if done is not None:
            done(Code.NONE)
        real(self, change)

    return [(LoadedShare, "carry_out", carry_out)]


@bug(shares=True)
def answers_before_states_are_committed() -> list[Change]:
    """Q20: a share coordinator answers a leader before the other replicas have the state."""
    real = Runtime._carry_out

    def carry_out(self: Any, context: Any, outcome: Any, now: Any) -> Any:
        if isinstance(context.shard, ShareStateShard):
            outcome = structs.replace(outcome, at_once=True)
        return real(self, context, outcome, now)

    return [(Runtime, "_carry_out", carry_out)]


@bug(shares=True)
def reading_fences_nobody() -> list[Change]:
    """Q13: the epoch of a leader that reads its state is not stored."""
    real = ShareStateShard.read

    def read(self: Any, keys: Any, token: Any, now: Any) -> Any:
        return structs.replace(real(self, keys, token, now), records=())

    return [(ShareStateShard, "read", read)]


@bug(shares=True)
def loads_snapshots_without_their_updates() -> list[Change]:
    """A share coordinator that reads its log back takes a share partition for what it was at its
    last snapshot."""
    real_replay, real_loaded = ShareStateShard.replay_at, ShareStateShard.loaded

    def replay_at(self: Any, record: Any, offset: int) -> None:
        if isinstance(record, UpdateRecord) and not getattr(self, "is_loaded", False):
            self._end = offset + 1
        else:
            real_replay(self, record, offset)

    def loaded(self: Any, now: Any) -> None:
        self.is_loaded = True
        real_loaded(self, now)

    return [(ShareStateShard, "replay_at", replay_at), (ShareStateShard, "loaded", loaded)]


@bug(shares=True, brokers=None)
def prunes_what_is_needed() -> list[Change]:
    """Q16: the log is deleted up to its end, not up to the oldest snapshot that is needed."""
    real = ShareStateShard.committed

    def committed(self: Any, end: int) -> Any:
        return [PruneBelow(end) for _ in real(self, end)]

    return [(ShareStateShard, "committed", committed)]


@bug(shares=True)
def skips_what_its_predecessor_had_delivered() -> list[Change]:
    """Q1 (KAFKA-18494): a new leader takes offsets between stored ranges for finished."""
    real = SharePartition.__init__

    def begin(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        for run in self.runs.all:
            if run.state is AVAILABLE and not run.attempts:
                run.state = run.target = ARCHIVED
                self.complete += len(run)
        self.settle()

    return [(SharePartition, "__init__", begin)]


@bug(shares=True, brokers=None)
def moves_the_start_before_the_write_is_committed() -> list[Change]:
    """The start offset passes records whose acknowledgement is not stored yet."""
    real = SharePartition.settle

    def settle(self: Any) -> None:
        for run in self.runs.all:
            if run.target < ACKNOWLEDGED:
                break
            run.state, run.token = run.target, 0
        real(self)

    return [(SharePartition, "settle", settle)]


@bug(shares=True)
def forgets_deliveries_of_its_predecessor() -> list[Change]:
    """A new leader counts the deliveries of released records from the beginning."""
    real = SharePartition.__init__

    def begin(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        for run in self.runs.all:
            run.attempts *= run.state is not AVAILABLE

    return [(SharePartition, "__init__", begin)]


@bug(shares=True, brokers=None)
def keeps_the_records_of_members_that_died() -> list[Change]:
    """Q7 (KAFKA-17396): a session ends, and what it held is available when its locks end."""
    return [(LoadedShares, "release", lambda self, group, member, now: None)]


@bug(shares=True, brokers=None)
def delivers_without_a_limit() -> list[Change]:
    """A record that makes consumers fail comes again for ever."""
    real = SharePartition._fail

    def fail(self: Any, runs: Any, cause: Any, now: Any) -> Any:
        options = self.options
        self.options = structs.replace(options, delivery_limit=1 << 30)
        try:
            return real(self, runs, cause, now)
        finally:
            self.options = options

    return [(SharePartition, "_fail", fail)]


@bug(shares=True)
def members_take_silence_for_success() -> list[Change]:
    """A consumer reports acknowledgements as done whose request had no answer."""
    real = HeldMessages.report

    def report(self: Any, acks: Any, error: Any) -> None:
        lost = error is not None and error.code in (Code.NETWORK_EXCEPTION, Code.REQUEST_TIMED_OUT)
        real(self, acks, None if lost else error)

    return [(HeldMessages, "report", report)]
