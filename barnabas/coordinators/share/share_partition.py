"""Which records of one partition a share group has in flight: the decisions of the leader.

In: batches read for a member, acknowledgements, time, the outcome of writes, the log's start.
Out: ranges that members have acquired; changes that must be written before they hold.
Always: an offset has one owner at most; a record whose acceptance was confirmed is never delivered
again; the start offset rises only; the window never exceeds the record locks; every offset ends
acknowledged or archived. An acknowledgement holds when its write is committed: until then nobody
can acquire the record, and nobody can acknowledge it again.
Not here: choosing the records of a fetch (acquiring.py), the stored state (state_shard.py), reading
and writing (broker/share).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from barnabas.coordinators.ports import Now
from barnabas.coordinators.share import acquiring
from barnabas.coordinators.share.acknowledge_ranges import AcknowledgeType, AckRange
from barnabas.coordinators.share.delivery_causes import (
    DeliveryCause,
    DeliveryFailure,
    DeliveryStatistics,
)
from barnabas.coordinators.share.runs import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    NO_TOKEN,
    Run,
    Runs,
)
from barnabas.coordinators.share.state_batches import DeliveryState, StateBatch
from barnabas.model.errors import Code, InvalidRequest, KafkaError

RUNS_MAX = 1_000_000  # of all share partitions of a broker
BACKOFF_MS_MAX = 3_600_000


class ShareOptions(Struct, frozen=True):
    """The options of a share group that its leader uses."""

    lock_ms: int = 30_000
    delivery_limit: int = 5
    locks_max: int = 2_000
    renewals: bool = True
    backoff_ms: int = 0


class ShareRoom:
    """The runs of all share partitions of a broker together."""

    __slots__ = ("runs", "runs_max")

    def __init__(self, runs_max: int = RUNS_MAX) -> None:
        self.runs = 0
        self.runs_max = runs_max

    @property
    def is_full(self) -> bool:
        return self.runs >= self.runs_max


class DeadRange(NamedTuple):
    """Records that are never delivered again although no consumer accepted them."""

    first: int
    last: int
    attempts: int
    cause: DeliveryCause
    member: str


class StateChange(NamedTuple):
    """To be written; then `written` or `refused` is called with the token."""

    token: int
    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]
    dead: tuple[DeadRange, ...] = ()


class SharePartition:
    """Runs of offsets from `start` to `end`, both included, without a gap."""

    def __init__(
        self,
        start: int,
        state_epoch: int,
        options: ShareOptions,
        room: ShareRoom | None = None,
        stored: Iterable[StateBatch] = (),
    ) -> None:
        """`stored`: the ranges of the stored state. Offsets between them were acquired when the
        last leader ended: they are delivered again."""
        self.start = start
        self.state_epoch = state_epoch
        self.options = options
        self.room = room or ShareRoom()
        self.runs = Runs()
        self.complete = 0  # offsets that are finished, or will be when their write is committed
        self.statistics = DeliveryStatistics()
        self._counted = 0  # runs that `room` knows of
        self._tokens = NO_TOKEN
        self._pending: dict[int, list[tuple[int, int]]] = {}  # ranges by token
        self._deadline: int | None = None  # never later than the next one
        self._available_from = start  # no record below is available
        for batch in stored:
            first = max(batch.first, self.end + 1)
            if first > batch.last:
                continue
            if first > self.end + 1:
                self.runs.append(Run(self.end + 1, first - 1, AVAILABLE, 0))
            state = DeliveryState(batch.state)
            self.runs.append(Run(first, batch.last, state, batch.attempts))
            if state >= ACKNOWLEDGED:
                self.complete += batch.last - first + 1
        self.runs.merge(start, self.end)
        self.settle()

    @property
    def end(self) -> int:
        return self.runs.all[-1].last if self.runs else self.start - 1

    @property
    def window_end(self) -> int:
        """The last offset that may be in flight."""
        return self.start + self.options.locks_max - 1

    @property
    def in_flight(self) -> int:
        """Offsets in the window, finished ones too."""
        return self.end - self.start + 1

    def close(self) -> None:
        """Another leader, or another state, takes over."""
        self.room.runs -= self._counted
        self._counted = 0

    # Fetching

    def next_fetch_offset(self, now_ms: int) -> int | None:
        """Where the next acquirable record may be; None: the window is full."""
        runs = self.runs.all
        bound = None  # the first available run, or the end
        for at in range(max(0, self.runs.find(self._available_from)), len(runs)):
            run = runs[at]
            if run.state is AVAILABLE:
                bound = run.first if bound is None else bound
                if run.not_before <= now_ms:
                    self._available_from = bound
                    return run.first
        self._available_from = self.end + 1 if bound is None else bound
        return self.end + 1 if self.end < self.window_end else None

    def acquire(
        self,
        member: str,
        fetch_offset: int,
        spans: Iterable[acquiring.BatchSpan],
        limits: acquiring.AcquireLimits,
        now_ms: int,
    ) -> acquiring.Acquisition:
        return acquiring.acquire(self, member, fetch_offset, spans, limits, now_ms)

    # Acknowledging

    def acknowledge(self, member: str, ranges: Sequence[AckRange], now: Now) -> StateChange | None:
        """All of them or none: a KafkaError says why none. None: there is nothing to write."""
        self._check(member, ranges)
        changed: list[Run] = []
        renewed: list[tuple[int, int]] = []
        dead: list[DeadRange] = []
        for first, last, type_ in ranges:
            first = max(first, self.start)
            if first > last:
                continue
            runs = self.runs.exactly(first, last)
            size = last - first + 1
            if type_ is AcknowledgeType.RENEW:
                for run in runs:
                    run.deadline = now.ms + self.options.lock_ms
                self.statistics.counts["renewed"] += size
                renewed.append((first, last))
                continue
            if type_ is AcknowledgeType.ACCEPT:
                self.statistics.counts["accepted"] += size
                self._aim(runs, ACKNOWLEDGED)
            elif type_ is AcknowledgeType.GAP:
                self.statistics.counts["gaps"] += size
                self._aim(runs, ARCHIVED)
            else:
                rejected = type_ is AcknowledgeType.REJECT
                cause = DeliveryCause.REJECTED if rejected else DeliveryCause.RELEASED
                dead += self._fail(runs, cause, now)
            changed += runs
        change = self._change(changed, dead)
        for first, last in renewed:  # not before: a run that waits for its write has a token now
            if last >= self.start:
                self.runs.merge(max(first, self.start), last)
        self.settle()
        return change

    def _check(self, member: str, ranges: Sequence[AckRange]) -> None:
        end = -1
        for first, last, type_ in ranges:
            if first <= end:
                raise _not_acquired("an offset is acknowledged twice")
            end = last
            if last < self.start:
                continue  # finished long ago, or deleted from the log
            if not self.runs:
                raise _not_acquired("no record is in flight")
            if last > self.end:
                raise InvalidRequest(
                    Code.INVALID_REQUEST, f"offset {last} is beyond the records in flight"
                )
            if type_ is AcknowledgeType.RENEW and not self.options.renewals:
                raise _not_acquired("share.renew.acknowledge.enable is false for the group")
            for run in self.runs.covering(max(first, self.start), last):
                if run.state is not ACQUIRED or run.token:
                    raise _not_acquired(f"offsets {run.first} to {run.last} are not acquired")
                if run.owner != member:
                    raise _not_acquired(f"another member holds {run.first} to {run.last}")

    def release(self, member: str, now: Now) -> StateChange | None:
        """The member's session ended: what it holds is available again."""
        held = [run for run in self.runs.all if run.owner == member and not run.token]
        return self._change(held, self._fail(held, DeliveryCause.SESSION_ENDED, now))

    def written(self, token: int) -> None:
        """The change is committed."""
        for run in self._of_token(token):
            run.state, run.token = run.target, NO_TOKEN
            if run.state is not ACQUIRED:
                run.owner = ""
                run.deadline = run.acquired_ms = 0
            self._freed(run)
        self._join(token)
        self.settle()

    def refused(self, token: int) -> None:
        """The change is not written: its records are acquired as before, and may be overdue."""
        for run in self._of_token(token):
            run.token = NO_TOKEN
            if run.target >= ACKNOWLEDGED > run.state:
                self.complete -= len(run)
            run.target = run.state
            if run.state is ACQUIRED:
                run.not_before = 0
                self.due_at(run.deadline)
        self._join(token)
        self.settle()

    # Time

    def expire(self, now: Now) -> StateChange | None:
        """Locks that are over, whose records are available at once; what is to be written."""
        if self._deadline is None or now.ms < self._deadline:
            return None
        self._deadline = None
        late: list[Run] = []
        for run in self.runs.all:
            if run.state is AVAILABLE and run.not_before > now.ms:
                self.due_at(run.not_before)
            elif run.state is ACQUIRED and not run.token:
                if run.deadline <= now.ms:
                    late.append(run)
                else:
                    self.due_at(run.deadline)
        if not late:
            return None
        dead = self._fail(late, DeliveryCause.EXPIRED, now)
        ranges = [StateBatch(run.first, run.last, run.target, run.attempts) for run in late]
        change = self._change([run for run in late if run.target is ARCHIVED], dead, ranges)
        for run in late:
            run.owner = ""
            run.deadline = run.acquired_ms = 0
            run.state = run.target
            self._freed(run)
        self.runs.merge(late[0].first, late[-1].last)
        self.settle()
        return change

    def next_deadline(self) -> int | None:
        """Never later than the next lock that ends, or the next record whose backoff ends."""
        return self._deadline

    def due_at(self, at_ms: int) -> None:
        if self._deadline is None or at_ms < self._deadline:
            self._deadline = at_ms

    # The log

    def log_start(self, offset: int) -> bool:
        """Records below were deleted; whether that changed anything."""
        if offset <= self.start:
            return False
        for run in self.runs.drop_below(offset):
            if run.target >= ACKNOWLEDGED:
                self.complete -= len(run)
        self.start = offset
        self.settle()
        return True

    def holder(self) -> Run | None:
        """The oldest run that is not finished: it keeps the window where it is."""
        return self.runs.all[0] if self.runs else None

    def settle(self) -> None:
        """Move the start over what is finished."""
        runs = self.runs.all
        if runs and runs[0].finished:
            finished = 0
            while finished < len(runs) and runs[finished].finished:
                self.complete -= len(runs[finished])
                finished += 1
            start = runs[finished - 1].last + 1
            self.runs.drop_below(start)
            self.start = start
        self.room.runs += len(runs) - self._counted
        self._counted = len(runs)

    # Changes

    def _aim(self, runs: list[Run], target: DeliveryState) -> None:
        for run in runs:
            run.target = target
            if target >= ACKNOWLEDGED:
                self.complete += len(run)

    def _fail(self, runs: list[Run], cause: DeliveryCause, now: Now) -> list[DeadRange]:
        """They are delivered again, or never again; returns the latter."""
        dead: list[DeadRange] = []
        for run in runs:
            over = run.attempts >= self.options.delivery_limit
            archived = over or cause is DeliveryCause.REJECTED
            self._aim([run], ARCHIVED if archived else AVAILABLE)
            if archived:
                why = cause if cause is DeliveryCause.REJECTED else DeliveryCause.LIMIT
                dead.append(DeadRange(run.first, run.last, run.attempts, why, run.owner))
            elif self.options.backoff_ms:
                delay = self.options.backoff_ms << min(run.attempts - 1, 20)
                run.not_before = now.ms + min(delay, BACKOFF_MS_MAX)
            self.statistics.failed(
                DeliveryFailure(
                    now.wall_ms, cause, run.first, run.last, run.attempts, run.owner, archived
                )
            )
        return dead

    def _freed(self, run: Run) -> None:
        if run.state is AVAILABLE:
            self._available_from = min(self._available_from, run.first)
            if run.not_before:
                self.due_at(run.not_before)

    def _change(
        self,
        runs: list[Run],
        dead: Sequence[DeadRange],
        batches: Iterable[StateBatch] | None = None,
    ) -> StateChange | None:
        """`runs` wait for the write; `batches`: what is written, if not their targets alone."""
        if batches is None:
            batches = [StateBatch(run.first, run.last, run.target, run.attempts) for run in runs]
        written = tuple(batches)
        if not written:
            return None
        self._tokens += 1
        for run in runs:
            run.token = self._tokens
        self._pending[self._tokens] = [(run.first, run.last) for run in runs]
        self.settle()
        return StateChange(self._tokens, self.start, self.complete, written, tuple(dead))

    def _of_token(self, token: int) -> Iterable[Run]:
        for first, last in self._pending.get(token, ()):
            for run in self.runs.covering(first, last):
                if run.token == token:
                    yield run

    def _join(self, token: int) -> None:
        for first, last in self._pending.pop(token, ()):
            if last >= self.start:
                self.runs.merge(max(first, self.start), last)


def _not_acquired(problem: str) -> KafkaError:
    return InvalidRequest(Code.INVALID_RECORD_STATE, f"acknowledgements: {problem}")
