"""One partition that this broker leads in a cluster: the machine that decides, and whom it tells.

In: appends, what followers have, the controller's answers. Out: the high watermark, proposals,
followers woken for news.
Not here: the decisions (replication/leader.py), followers' requests (sessions.py).
"""

from typing import TYPE_CHECKING, Protocol

from barnabas.model.ids import BrokerId
from barnabas.replication.leader import IsrProposal, Leader
from barnabas.replication.state import PartitionState

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition


class FollowerListener(Protocol):
    """A follower's place in this partition: it wants to know when there is something for it."""

    def news(self) -> None:
        """Records to fetch."""
        ...

    def marks(self) -> None:
        """The watermark or the start has moved; that can wait a little."""
        ...

    def doubted(self) -> None:
        """What it said counts no more; its next request, about whatever, says it again."""
        ...


class StartWaiter(Protocol):
    """Someone who waits until no replica has what was deleted."""

    def started(self) -> None:
        """A replica begins elsewhere now, or its broker is gone."""
        ...


class LeaderContext(Protocol):
    """What all led partitions of a broker share (roles.py)."""

    def now_ms(self) -> int: ...

    def propose(self, leading: "LeaderReplica", proposal: IsrProposal) -> None: ...

    def restless(self, leading: "LeaderReplica") -> None:
        """Not everything is committed, or not everybody in sync: it wants a tick now and then."""
        ...

    def is_there(self, broker: BrokerId) -> bool: ...

    @property
    def lag_ms_max(self) -> int: ...


class LeaderReplica:
    """From one LeaderAndIsr to the next leader epoch."""

    __slots__ = ("_leader_context", "listeners", "machine", "partition", "starts_awaited")

    def __init__(
        self,
        partition: "Partition",
        broker: BrokerId,
        state: PartitionState,
        leader_context: LeaderContext,
    ) -> None:
        self.partition = partition
        self.listeners: dict[BrokerId, FollowerListener] = {}
        self.starts_awaited: dict[StartWaiter, None] = {}
        self._leader_context = leader_context
        log = partition.log
        self.machine = Leader(
            broker,
            state,
            end=log.durable_offset if partition.is_unsynced else log.end_offset,
            high_watermark=log.high_watermark,
            lag_ms_max=leader_context.lag_ms_max,
            now=leader_context.now_ms(),
            epoch_start=log.end_offset,
            min_isr=min(partition.min_insync_replicas, len(state.replicas)),
        )
        leader_context.restless(self)

    @property
    def high_watermark(self) -> int:
        return self.machine.high_watermark

    @property
    def start_everywhere(self) -> int:
        """No replica on a broker that is there has anything below."""
        there = [
            progress.start
            for follower, progress in self.machine.followers.items()
            if self._leader_context.is_there(follower)
        ]
        return min([self.partition.log.start_offset, *there])

    @property
    def alone(self) -> bool:
        """There is no other replica: a record counts when it is appended, and nobody is told."""
        return not self.machine.followers

    def catch_up(self) -> None:
        """With what was appended without a word to this."""
        if self.partition.counts_at_once:
            self.machine.appended(self.partition.log.end_offset, self._leader_context.now_ms())

    def configure(self, min_isr: int) -> None:
        self.machine.configure(
            min_isr, self._leader_context.lag_ms_max, self._leader_context.now_ms()
        )

    # Told by the partition

    def news(self) -> None:
        for listener in self.listeners.values():
            listener.news()

    def appended(self, end: int) -> int:
        """The high watermark after it."""
        machine = self.machine
        machine.appended(end, self._leader_context.now_ms())
        if machine.high_watermark < end:
            self._leader_context.restless(self)
        return machine.high_watermark

    def committed(self) -> None:
        for listener in self.listeners.values():
            listener.marks()

    def wait_for_starts(self, waiter: StartWaiter) -> None:
        """It is told when `start_everywhere` may have moved, while it is in `starts_awaited`."""
        self.starts_awaited[waiter] = None
        self._leader_context.restless(self)

    def _tell_starts(self) -> None:
        for waiter in tuple(self.starts_awaited):
            waiter.started()

    # Told by others

    def fetched(self, follower: BrokerId, offset: int, start: int, broker_epoch: int) -> None:
        """NotAReplica or OldIncarnation if it must not count."""
        proposal = self.machine.fetched(
            follower,
            offset,
            start=start,
            broker_epoch=broker_epoch,
            now=self._leader_context.now_ms(),
        )
        if proposal is not None:
            self._leader_context.propose(self, proposal)
        elif follower not in self.machine.isr:
            self._leader_context.restless(self)  # it may come in later, and need not fetch again
        self.partition.commit_to(self.machine.high_watermark)
        if self.starts_awaited:
            self._tell_starts()

    def records_sent(self, follower: BrokerId) -> None:
        self.machine.records_sent(follower, self._leader_context.now_ms())

    def tick(self) -> bool:
        """False: there is nothing to wait for, until the next append."""
        self.catch_up()
        machine = self.machine
        for follower in machine.followers:
            if not self._leader_context.is_there(follower):
                machine.broker_unregistered(follower)
                self._doubt(follower)
        proposal = machine.tick(self._leader_context.now_ms())
        if proposal is not None:
            self._leader_context.propose(self, proposal)
        self.partition.commit_to(machine.high_watermark)
        if self.starts_awaited:  # the broker of who is waited for may be gone
            self._tell_starts()
        end = self.partition.log.end_offset
        return (
            machine.high_watermark < end
            or bool(self.starts_awaited)
            or machine.has_caught_up_outsider
            or any(machine.end_of(each) < end for each in machine.isr if each in machine.followers)
        )

    def update(self, state: PartitionState) -> None:
        """The same leadership, said anew by the controller."""
        self.catch_up()
        if self.machine.update(state, self._leader_context.now_ms()):
            for follower in self.machine.followers:
                self._doubt(follower)
            self.partition.restate(state)
            self.machine.configure(
                self.partition.min_isr,
                self._leader_context.lag_ms_max,
                self._leader_context.now_ms(),
            )
            self._leader_context.restless(self)
            self.partition.commit_to(self.machine.high_watermark)

    def _doubt(self, follower: BrokerId) -> None:
        """If what it said counts no more, its next request counts for this partition too: it would
        not name it as long as nothing is appended."""
        listener = self.listeners.get(follower)
        if listener is not None and self.machine.end_of(follower) < 0:
            listener.doubted()

    def answered(
        self,
        proposal: IsrProposal,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[BrokerId, ...],
    ) -> bool:
        """The controller's answer to a proposal; False if it is not news."""
        if self.partition.leading is not self:  # it no longer leads, and the log may be gone
            return False
        now = self._leader_context.now_ms()
        news = self.machine.answered(proposal, leader_epoch, partition_epoch, isr, now)
        if news:
            self.partition.partition_epoch = partition_epoch
            self.partition.isr_changed(list(isr))
        self._leader_context.restless(self)  # another may have waited for the answer
        self.partition.commit_to(self.machine.high_watermark)
        return news

    def rejected(self, proposal: IsrProposal) -> None:
        if self.partition.leading is not self:
            return
        self.machine.rejected(proposal, self._leader_context.now_ms())
        self._leader_context.restless(self)
        self.partition.commit_to(self.machine.high_watermark)
