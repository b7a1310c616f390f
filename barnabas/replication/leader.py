"""Decides, for one partition that this broker leads, who is in sync and what is committed.

In: the end offsets of this log, the fetch positions of followers, the controller's replies, time.
Out: the high watermark; proposals of a new in-sync set.
Always: the high watermark never decreases. It never passes the end of a replica that is in sync,
or of one that a proposal without a reply would add: the larger of both sets decides.
Always: one proposal at a time; the leader is in sync.
Always: a replica is added only if it has all committed records and the start of this epoch.
Not here: logs, sending the proposals (broker/replicas/isr_proposals.py), electing leaders
(controller/).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.model.ids import BrokerId
from barnabas.replication.state import PartitionState

UNKNOWN = -1
NEVER = -(1 << 62)
JOINING_MS_MAX = 1_000
REJECTED_WAIT_MS = 1_000  # doubled after each rejection
REJECTED_WAIT_MS_MAX = 30_000


class NotAReplica(Exception):
    """A broker fetches as a follower of a partition that it has no replica of."""


class OldIncarnation(Exception):
    """A follower fetches with the broker epoch from before its last restart."""


class FollowerProgress:
    """What the leader knows about one follower."""

    __slots__ = (
        "asked_ms", "broker_epoch", "caught_up_ms", "end", "end_then", "isr_epoch", "not_before_ms",
        "rejected_wait_ms", "start",
    )  # fmt: skip

    def __init__(self, caught_up_ms: int) -> None:
        self.end = UNKNOWN  # it has all records below
        self.start = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.isr_epoch = UNKNOWN  # its broker epoch when it was last in sync
        self.caught_up_ms = caught_up_ms  # when it last had all records
        self.end_then = UNKNOWN  # the leader's end offset when it last received records
        self.asked_ms = NEVER
        self.not_before_ms = NEVER  # the controller rejected it: do not propose it before
        self.rejected_wait_ms = 0

    def rejected(self, now: int) -> None:
        """The controller rejected this replica: it is stopping, or its disk has failed. That may
        last."""
        wait_ms = min(max(REJECTED_WAIT_MS, 2 * self.rejected_wait_ms), REJECTED_WAIT_MS_MAX)
        self.rejected_wait_ms = wait_ms
        self.not_before_ms = now + wait_ms

    def reset(self, broker_epoch: int) -> None:
        """Its broker has registered again: nothing that was known about it is valid."""
        self.broker_epoch = broker_epoch
        self.end_then = UNKNOWN
        self.not_before_ms = NEVER
        self.rejected_wait_ms = 0


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """A new in-sync set; it is valid once the controller has accepted it.

    `broker_epochs` are those that the replicas fetched with, in the order of `isr`; -1 is the
    leader's own, or one that is not known.
    """

    isr: tuple[BrokerId, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    cause: str


class Leader:
    """One method per event. Each that may advance the high watermark leaves it in
    `high_watermark`."""

    __slots__ = (
        "_broker", "_end", "_epoch_start", "_followers", "_isr", "_lag_ms_max", "_state",
        "high_watermark", "min_isr", "pending",
    )  # fmt: skip

    def __init__(
        self,
        broker: BrokerId,
        state: PartitionState,
        *,
        end: int,
        high_watermark: int,
        lag_ms_max: int,
        now: int,
        epoch_start: int | None = None,
        min_isr: int = 1,
    ) -> None:
        """`epoch_start`: the end of the log, if the leader's own copy does not include all of
        it."""
        self._broker = broker
        self._state = state
        self._isr = state.isr
        self._end = end
        self._epoch_start = end if epoch_start is None else epoch_start
        self._lag_ms_max = lag_ms_max
        self.high_watermark = high_watermark
        self.min_isr = min_isr  # with fewer replicas in sync, nothing is committed
        self.pending: IsrProposal | None = None
        self._followers = {
            each: FollowerProgress(now if each in state.isr else NEVER)
            for each in state.replicas
            if each != broker
        }
        self._advance(now)

    # Queries

    @property
    def state(self) -> PartitionState:
        return self._state

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """As the controller last confirmed it."""
        return self._isr

    @property
    def epoch_start(self) -> int:
        """Where the log ended when this leadership began."""
        return self._epoch_start

    @property
    def followers(self) -> dict[BrokerId, FollowerProgress]:
        """For inspection."""
        return self._followers

    def end_of(self, follower: BrokerId) -> int:
        """The offset below which it has all records; -1 if unknown or if it is not a follower."""
        progress = self._followers.get(follower)
        return UNKNOWN if progress is None else progress.end

    # Events

    def appended(self, end: int, now: int) -> None:
        """The log has this end; includes only what belongs to the leader's own copy."""
        before = self._end
        self._end = end
        for progress in self._followers.values():
            if progress.end >= before:  # caught up until now
                progress.caught_up_ms = now
        self._advance(now)

    def fetched(
        self, follower: BrokerId, offset: int, *, start: int, broker_epoch: int, now: int
    ) -> IsrProposal | None:
        """It has all records below `offset`, and they are the leader's: the epochs were compared.

        Raises NotAReplica or OldIncarnation if the fetch must not be considered.
        """
        progress = self._follower(follower, broker_epoch)
        if offset >= self._end:
            progress.caught_up_ms = now
        elif offset >= progress.end_then != UNKNOWN:
            # It reaches, again and again, an end that has advanced by the time its fetch arrives.
            progress.caught_up_ms = max(progress.caught_up_ms, progress.asked_ms)
        progress.end = offset
        progress.start = start
        self._advance(now)
        return self._expand(follower, progress, now)

    def records_sent(self, follower: BrokerId, now: int) -> None:
        """The leader sends it the available records, or the first of them."""
        progress = self._followers.get(follower)
        if progress is not None:
            progress.end_then = self._end
            progress.asked_ms = now

    def tick(self, now: int) -> IsrProposal | None:
        """Followers may have fallen behind, or may be added now that could not be added before.

        Call it several times per `lag_ms_max`.
        """
        self._advance(now)
        if self.pending is not None:
            return None
        late = [
            each
            for each in self._isr
            if each != self._broker and not self._in_time(self._followers.get(each), now)
        ]
        if not late:
            return self._expand_to_caught_up(now)
        left = tuple(each for each in self._isr if each not in late)
        return self._propose(left, f"{_names(late)} behind for {self._lag_ms_max} ms")

    def answered(
        self,
        proposal: IsrProposal,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[BrokerId, ...],
        now: int,
    ) -> bool:
        """The controller's reply to this proposal; False if the reply has no new state."""
        state = self._state
        if leader_epoch != state.leader_epoch or partition_epoch < state.partition_epoch:
            return False
        if partition_epoch == state.partition_epoch:
            # Nothing has changed. A duplicate reply must not end a later proposal.
            if self.pending is proposal:
                self.pending = None
                self._advance(now)
            return False
        self._adopt(
            PartitionState(
                state.leader,
                leader_epoch,
                isr,
                partition_epoch,
                state.replicas,
                state.adding,
                state.removing,
            ),
            now,
        )
        return True

    def rejected(self, proposal: IsrProposal, now: int) -> None:
        """It was certainly not applied, and need not be retried unchanged."""
        if self.pending is not proposal:
            return
        for each in proposal.isr:
            if each not in self._isr and each in self._followers:
                self._followers[each].rejected(now)
        self.pending = None
        self._advance(now)

    def update(self, state: PartitionState, now: int) -> bool:
        """The controller repeats the leadership: replicas or the in-sync set may have changed."""
        if state.epochs <= self._state.epochs:
            return False
        for each in list(self._followers):
            if each not in state.replicas:
                del self._followers[each]
        for each in state.replicas:
            if each != self._broker and each not in self._followers:
                self._followers[each] = FollowerProgress(now if each in state.isr else NEVER)
        own = self.pending is not None and sorted(self.pending.isr) == sorted(state.isr)
        for each in () if own else self._isr:  # the reply to our own proposal may be lost
            if each not in state.isr and each in self._followers:
                # The controller's decision wins over our clock: the high watermark no longer waits
                # for this replica, and its old position is ignored until it fetches again. If it
                # has registered again and fetched already, it would not fetch again until records
                # are appended.
                progress = self._followers[each]
                progress.caught_up_ms = NEVER
                if progress.broker_epoch == progress.isr_epoch:
                    progress.end = UNKNOWN
        self._adopt(state, now)
        return True

    def broker_unregistered(self, follower: BrokerId) -> None:
        """Its broker is not registered. Unless the replica is in sync, which the controller
        decides, its position is ignored until it fetches again."""
        if follower not in self._isr:
            progress = self._followers[follower]
            # The high watermark does not wait for it.
            progress.end, progress.caught_up_ms = UNKNOWN, NEVER

    def configure(self, min_isr: int, lag_ms_max: int, now: int) -> None:
        self.min_isr = min_isr
        self._lag_ms_max = lag_ms_max
        self._advance(now)

    # Internal

    def _follower(self, follower: BrokerId, broker_epoch: int) -> FollowerProgress:
        progress = self._followers.get(follower)
        if progress is None:
            raise NotAReplica
        if broker_epoch != progress.broker_epoch:
            if UNKNOWN < broker_epoch < progress.broker_epoch:
                raise OldIncarnation
            if progress.broker_epoch == UNKNOWN:
                progress.isr_epoch = broker_epoch
            progress.reset(broker_epoch)
        return progress

    def _adopt(self, state: PartitionState, now: int) -> None:
        self._state = state
        self.pending = None
        for each in state.isr:
            progress = self._followers.get(each)
            if progress is not None and each not in self._isr:
                progress.isr_epoch = progress.broker_epoch
                progress.rejected_wait_ms = 0
            if progress is not None and progress.caught_up_ms == NEVER:
                progress.caught_up_ms = now
        self._isr = state.isr
        self._advance(now)

    def _in_time(self, progress: FollowerProgress | None, now: int) -> bool:
        if progress is None:
            return False
        return progress.end >= self._end or now - progress.caught_up_ms <= self._lag_ms_max

    def _expand(
        self, follower: BrokerId, progress: FollowerProgress, now: int
    ) -> IsrProposal | None:
        if (
            self.pending is not None
            or follower in self._isr
            or progress.end < self.high_watermark
            or progress.end < self._epoch_start
            or now < progress.not_before_ms
        ):
            return None
        return self._propose(
            (*self._isr, follower), f"{follower} has all records below {progress.end}"
        )

    def _expand_to_caught_up(self, now: int) -> IsrProposal | None:
        """A replica that caught up during another proposal has nothing left to fetch."""
        for follower, progress in self._followers.items():
            if progress.end >= self._end and follower not in self._isr:
                proposal = self._expand(follower, progress, now)
                if proposal is not None:
                    return proposal
        return None

    @property
    def has_caught_up_outsider(self) -> bool:
        """A replica that has all records is not in sync yet."""
        return any(
            progress.end >= self._end and follower not in self._isr
            for follower, progress in self._followers.items()
        )

    def _propose(self, isr: tuple[BrokerId, ...], cause: str) -> IsrProposal:
        self.pending = IsrProposal(
            isr,
            tuple(self._followers[e].broker_epoch if e != self._broker else UNKNOWN for e in isr),
            self._state.leader_epoch,
            self._state.partition_epoch,
            cause,
        )
        return self.pending

    def _advance(self, now: int) -> None:
        """Advance the high watermark to the smallest end of the replicas that must have a
        record."""
        isr = self._isr
        pending = self.pending
        if len(isr) < self.min_isr:
            return
        mark = self._end
        if mark <= self.high_watermark:
            return
        for follower, progress in self._followers.items():
            if progress.end < mark and (
                follower in isr
                or (pending is not None and follower in pending.isr)
                or self._is_joining(progress, now)
            ):
                mark = progress.end
        self.high_watermark = max(self.high_watermark, mark)

    def _is_joining(self, progress: FollowerProgress, now: int) -> bool:
        """It is about to be added: if the high watermark ran ahead of it, it could never be
        added."""
        return (
            now - progress.caught_up_ms <= min(JOINING_MS_MAX, self._lag_ms_max)
            and now >= progress.not_before_ms
        )


def _names(brokers: Iterable[BrokerId]) -> str:
    return ", ".join(map(str, brokers))
