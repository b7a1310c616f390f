"""Decides, for one partition that this broker leads, who is in sync and what is committed.

In: the ends of the own log, the positions that followers fetch from, the controller's answers,
time. Out: the high watermark; proposals of another in-sync set.
Always: the watermark never goes back, and never passes the end of a replica that is in sync, or
that a proposal without an answer would bring in: it counts the larger of both sets.
Always: one proposal at a time; the leader is in sync.
Always: a replica comes in only where it has all that is committed, and the start of this epoch.
Not here: logs, who sends the proposals (broker/replicas/isr_proposals.py), electing leaders
(controller/).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.model.ids import BrokerId
from barnabas.replication.state import PartitionState

UNKNOWN = -1
NEVER = -(1 << 62)
JOINING_MS_MAX = 1_000
REJECTED_WAIT_MS = 1_000  # and twice as long each time
REJECTED_WAIT_MS_MAX = 30_000


class NotAReplica(Exception):
    """A broker that has no replica of the partition asks as if it had one."""


class OldIncarnation(Exception):
    """A follower asks as the broker it was before its last restart."""


class FollowerProgress:
    """What the leader knows of one follower."""

    __slots__ = (
        "asked_ms", "broker_epoch", "caught_up_ms", "end", "end_then", "isr_epoch", "not_before_ms",
        "rejected_wait_ms", "start",
    )  # fmt: skip

    def __init__(self, caught_up_ms: int) -> None:
        self.end = UNKNOWN  # it has everything below
        self.start = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.isr_epoch = UNKNOWN  # as which it was last in sync
        self.caught_up_ms = caught_up_ms  # when it last had all there was
        self.end_then = UNKNOWN  # the leader's end when it was last given records
        self.asked_ms = NEVER
        self.not_before_ms = NEVER  # the controller would not have it: not proposed till then
        self.rejected_wait_ms = 0

    def rejected(self, now: int) -> None:
        """It is stopping, say, or its disk has failed: that may last as long as it lives."""
        wait_ms = min(max(REJECTED_WAIT_MS, 2 * self.rejected_wait_ms), REJECTED_WAIT_MS_MAX)
        self.rejected_wait_ms = wait_ms
        self.not_before_ms = now + wait_ms

    def anew(self, broker_epoch: int) -> None:
        """It has registered anew: nothing that was said of it before holds."""
        self.broker_epoch = broker_epoch
        self.end_then = UNKNOWN
        self.not_before_ms = NEVER
        self.rejected_wait_ms = 0


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """Another in-sync set; it holds from the controller's answer on.

    `broker_epochs` are those the replicas fetched with, in the order of `isr`; -1 is the leader's
    own, or one that is not known.
    """

    isr: tuple[BrokerId, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    cause: str


class Leader:
    """One verb per event; each that may have moved the watermark leaves it in `high_watermark`."""

    __slots__ = (
        "_broker", "_end", "_epoch_start", "_followers", "_isr", "_lag_ms_max", "_state",
        "high_watermark", "isr_min", "pending",
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
        isr_min: int = 1,
    ) -> None:
        """`epoch_start`: where the log ends, if not all of it counts as the leader's own copy."""
        self._broker = broker
        self._state = state
        self._isr = state.isr
        self._end = end
        self._epoch_start = end if epoch_start is None else epoch_start
        self._lag_ms_max = lag_ms_max
        self.high_watermark = high_watermark
        self.isr_min = isr_min  # with fewer in sync, nothing is committed, from the start on
        self.pending: IsrProposal | None = None
        self._followers = {
            each: FollowerProgress(now if each in state.isr else NEVER)
            for each in state.replicas
            if each != broker
        }
        self._advance(now)

    # What others may ask

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
        """To look at."""
        return self._followers

    def end_of(self, follower: BrokerId) -> int:
        """Below which it has everything; -1 if it has not said, or is none."""
        progress = self._followers.get(follower)
        return UNKNOWN if progress is None else progress.end

    # Events

    def appended(self, end: int, now: int) -> None:
        """The own log has this end; only what is to count as the leader's own copy."""
        before = self._end
        self._end = end
        for progress in self._followers.values():
            if progress.end >= before:  # level until now
                progress.caught_up_ms = now
        self._advance(now)

    def fetched(
        self, follower: BrokerId, offset: int, *, start: int, broker_epoch: int, now: int
    ) -> IsrProposal | None:
        """It has everything below `offset`, and that is the leader's: its epochs were compared.

        NotAReplica or OldIncarnation if it must not count.
        """
        progress = self._known(follower, broker_epoch)
        if offset >= self._end:
            progress.caught_up_ms = now
        elif offset >= progress.end_then != UNKNOWN:
            # It draws level again and again with an end that has moved on when it says so.
            progress.caught_up_ms = max(progress.caught_up_ms, progress.asked_ms)
        progress.end = offset
        progress.start = start
        self._advance(now)
        return self._expand(follower, progress, now)

    def given(self, follower: BrokerId, now: int) -> None:
        """It is being sent what there is, or the beginning of it."""
        progress = self._followers.get(follower)
        if progress is not None:
            progress.end_then = self._end
            progress.asked_ms = now

    def tick(self, now: int) -> IsrProposal | None:
        """Followers may have fallen behind, or may come in now that they could not before.

        Call it a few times per `lag_ms_max`.
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
            return self._expand_level(now)
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
        """The controller's word on the partition, in answer to this; False if it is not news."""
        state = self._state
        if leader_epoch != state.leader_epoch or partition_epoch < state.partition_epoch:
            return False
        if partition_epoch == state.partition_epoch:
            # Nothing has changed. An answer that comes twice must not end a later proposal.
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
        """It was surely not done, and need not be tried again as it is."""
        if self.pending is not proposal:
            return
        for each in proposal.isr:
            if each not in self._isr and each in self._followers:
                self._followers[each].rejected(now)
        self.pending = None
        self._advance(now)

    def update(self, state: PartitionState, now: int) -> bool:
        """The same leadership, said anew: replicas or the in-sync set may have changed."""
        if state.age <= self._state.age:
            return False
        for each in list(self._followers):
            if each not in state.replicas:
                del self._followers[each]
        for each in state.replicas:
            if each != self._broker and each not in self._followers:
                self._followers[each] = FollowerProgress(now if each in state.isr else NEVER)
        own = self.pending is not None and sorted(self.pending.isr) == sorted(state.isr)
        for each in () if own else self._isr:  # the answer to the own proposal may be lost
            if each not in state.isr and each in self._followers:
                # The controller knows better than the clock: nobody waits for it any more, and
                # what it had does not count until it asks again. If it has registered anew and
                # asked already, it need not: it would not, as long as nothing is appended.
                progress = self._followers[each]
                progress.caught_up_ms = NEVER
                if progress.broker_epoch == progress.isr_epoch:
                    progress.end = UNKNOWN
        self._adopt(state, now)
        return True

    def gone(self, follower: BrokerId) -> None:
        """Its broker is not registered: unless it is in sync, which the controller decides, what
        it had does not count until it asks again."""
        if follower not in self._isr:
            progress = self._followers[follower]
            progress.end, progress.caught_up_ms = UNKNOWN, NEVER  # nobody waits for it either

    def configure(self, isr_min: int, lag_ms_max: int, now: int) -> None:
        self.isr_min = isr_min
        self._lag_ms_max = lag_ms_max
        self._advance(now)

    # Inside

    def _known(self, follower: BrokerId, broker_epoch: int) -> FollowerProgress:
        progress = self._followers.get(follower)
        if progress is None:
            raise NotAReplica
        if broker_epoch != progress.broker_epoch:
            if UNKNOWN < broker_epoch < progress.broker_epoch:
                raise OldIncarnation
            if progress.broker_epoch == UNKNOWN:
                progress.isr_epoch = broker_epoch
            progress.anew(broker_epoch)
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
            (*self._isr, follower), f"{follower} has everything below {progress.end}"
        )

    def _expand_level(self, now: int) -> IsrProposal | None:
        """Who had drawn level while another proposal was out has nothing more to fetch."""
        for follower, progress in self._followers.items():
            if progress.end >= self._end and follower not in self._isr:
                proposal = self._expand(follower, progress, now)
                if proposal is not None:
                    return proposal
        return None

    @property
    def waits_for_level(self) -> bool:
        """Somebody who has everything is not in sync yet."""
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
        """Up to where all that count have come."""
        isr = self._isr
        pending = self.pending
        if len(isr) < self.isr_min:
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
        """It is about to come in: a watermark that ran ahead of it would keep it out for ever."""
        return (
            now - progress.caught_up_ms <= min(JOINING_MS_MAX, self._lag_ms_max)
            and now >= progress.not_before_ms
        )


def _names(brokers: Iterable[BrokerId]) -> str:
    return ", ".join(map(str, brokers))
