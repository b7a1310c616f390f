"""One partition that this broker leads in a cluster: the deciding machine, and its listeners.

In: appends, positions of followers, the controller's replies. Out: the high watermark, proposals,
notified followers.
Not here: the decisions (replication/leader.py), followers' requests (follower_sessions.py).
"""

from typing import TYPE_CHECKING, Protocol

from barnabas.model.ids import BrokerId
from barnabas.replication.leader import IsrProposal, Leader
from barnabas.replication.state import PartitionState

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition


class FollowerListener(Protocol):
    """A follower's position in this partition; it is notified when there is something to send."""

    def records_available(self) -> None:
        """There are records to fetch."""
        ...

    def marks(self) -> None:
        """The high watermark or the log start has moved; the follower can learn it a little
        later."""
        ...

    def position_invalid(self) -> None:
        """Its position is no longer valid; its next request sends it again."""
        ...


class StartWaiter(Protocol):
    """A request that waits until no replica has the deleted records."""

    def started(self) -> None:
        """The log start of a replica has moved, or its broker is not registered any more."""
        ...


class LeaderContext(Protocol):
    """What all led partitions of a broker share (roles.py)."""

    def now_ms(self) -> int: ...

    def propose(self, leading: "LeaderReplica", proposal: IsrProposal) -> None: ...

    def needs_ticks(self, leading: "LeaderReplica") -> None:
        """Some records are not committed, or some replicas not in sync: it needs ticks."""
        ...

    def is_registered(self, broker: BrokerId) -> bool: ...

    def may_have_successors(self) -> bool:
        """Other brokers may have been elected to lead the partitions of this one."""
        ...

    @property
    def lag_ms_max(self) -> int: ...


class LeaderReplica:
    """From one LeaderAndIsr to the next leader epoch."""

    __slots__ = ("_leader_context", "listeners", "machine", "partition", "start_waiters")

    def __init__(
        self,
        partition: "Partition",
        broker: BrokerId,
        state: PartitionState,
        leader_context: LeaderContext,
    ) -> None:
        self.partition = partition
        self.listeners: dict[BrokerId, FollowerListener] = {}
        self.start_waiters: dict[StartWaiter, None] = {}
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
        leader_context.needs_ticks(self)

    @property
    def high_watermark(self) -> int:
        return self.machine.high_watermark

    @property
    def start_everywhere(self) -> int:
        """No replica on a registered broker has records below this offset."""
        there = [
            progress.start
            for follower, progress in self.machine.followers.items()
            if self._leader_context.is_registered(follower)
        ]
        return min([self.partition.log.start_offset, *there])

    @property
    def alone(self) -> bool:
        """There is no other replica: a record is committed when it is appended."""
        return not self.machine.followers

    def catch_up(self) -> None:
        """Adopt records that were appended without notifying this object."""
        if self.partition.commits_immediately:
            self.machine.appended(self.partition.log.end_offset, self._leader_context.now_ms())

    def configure(self, min_isr: int) -> None:
        self.machine.configure(
            min_isr, self._leader_context.lag_ms_max, self._leader_context.now_ms()
        )

    # Called by the partition

    def records_available(self) -> None:
        for listener in self.listeners.values():
            listener.records_available()

    def appended(self, end: int) -> int:
        """Returns the high watermark afterwards."""
        machine = self.machine
        machine.appended(end, self._leader_context.now_ms())
        if machine.high_watermark < end:
            self._leader_context.needs_ticks(self)
        return machine.high_watermark

    def committed(self) -> None:
        for listener in self.listeners.values():
            listener.marks()

    def wait_for_starts(self, waiter: StartWaiter) -> None:
        """It is notified when `start_everywhere` may have moved, while it is in
        `start_waiters`."""
        self.start_waiters[waiter] = None
        self._leader_context.needs_ticks(self)

    def _notify_start_waiters(self) -> None:
        for waiter in tuple(self.start_waiters):
            waiter.started()

    # Called by others

    def fetched(self, follower: BrokerId, offset: int, start: int, broker_epoch: int) -> None:
        """Raises NotAReplica or OldIncarnation if the fetch must not be considered."""
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
            self._leader_context.needs_ticks(
                self
            )  # it may be added later, and need not fetch again
        self.partition.commit_to(self.machine.high_watermark)
        if self.start_waiters:
            self._notify_start_waiters()

    def may_be_behind(self, offset: int) -> bool:
        """Another leader may have written that offset: OFFSET_OUT_OF_RANGE would make consumers
        begin again."""
        behind = offset > self.partition.log.end_offset and not self.alone
        return behind and self._leader_context.may_have_successors()

    def records_sent(self, follower: BrokerId) -> None:
        self.machine.records_sent(follower, self._leader_context.now_ms())

    def tick(self) -> bool:
        """False: no tick is needed until the next append."""
        self.catch_up()
        machine = self.machine
        for follower in machine.followers:
            if not self._leader_context.is_registered(follower):
                machine.broker_unregistered(follower)
                self._invalidate(follower)
        proposal = machine.tick(self._leader_context.now_ms())
        if proposal is not None:
            self._leader_context.propose(self, proposal)
        self.partition.commit_to(machine.high_watermark)
        if self.start_waiters:  # the broker of an awaited replica may have failed
            self._notify_start_waiters()
        end = self.partition.log.end_offset
        return (
            machine.high_watermark < end
            or bool(self.start_waiters)
            or machine.has_caught_up_outsider
            or any(machine.end_of(each) < end for each in machine.isr if each in machine.followers)
        )

    def update(self, state: PartitionState) -> None:
        """The controller repeats the state of the same leadership."""
        self.catch_up()
        if self.machine.update(state, self._leader_context.now_ms()):
            for follower in self.machine.followers:
                self._invalidate(follower)
            self.partition.update_state(state)
            self.machine.configure(
                self.partition.min_isr,
                self._leader_context.lag_ms_max,
                self._leader_context.now_ms(),
            )
            self._leader_context.needs_ticks(self)
            self.partition.commit_to(self.machine.high_watermark)

    def _invalidate(self, follower: BrokerId) -> None:
        """If its position is no longer valid, its next request must include this partition: it
        would not send the position as long as nothing is appended."""
        listener = self.listeners.get(follower)
        if listener is not None and self.machine.end_of(follower) < 0:
            listener.position_invalid()

    def answered(
        self,
        proposal: IsrProposal,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[BrokerId, ...],
    ) -> bool:
        """The controller's reply to a proposal; False if it has no new state."""
        if self.partition.leading is not self:  # it no longer leads, and the log may be deleted
            return False
        now = self._leader_context.now_ms()
        news = self.machine.answered(proposal, leader_epoch, partition_epoch, isr, now)
        if news:
            self.partition.partition_epoch = partition_epoch
            self.partition.isr_changed(list(isr))
        self._leader_context.needs_ticks(self)  # another proposal may have waited for the reply
        self.partition.commit_to(self.machine.high_watermark)
        return news

    def rejected(self, proposal: IsrProposal) -> None:
        if self.partition.leading is not self:
            return
        self.machine.rejected(proposal, self._leader_context.now_ms())
        self._leader_context.needs_ticks(self)
        self.partition.commit_to(self.machine.high_watermark)
