"""One partition as this broker sees it: its log, its role, and the requests that wait for it.

In: batches from producers, reads from consumers, states from the controller. Out: offsets and
file slices, or a KafkaError.
Always: the high watermark never decreases while this broker leads; a request that waits for data is
notified once per advance of the high watermark; a request that waits for a commit is notified that
the record is committed, or why the outcome is unknown.
Not here: the files (log/), the format of requests (handlers/), the decisions of a leader
(broker/replicas/leading.py), syncs before a commit (partition_flush.py), the words of its errors
(partition_errors.py).

On a lone broker every partition is led here, by the only replica: then `leading` is None and a
record is committed when it is appended.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.no_log import NoLog
from barnabas.broker.partition_errors import (
    disk_error,
    leadership_lost,
    log_truncated,
    not_enough_replicas,
    not_served,
    other_leader_epoch,
)
from barnabas.broker.partition_flush import flush_is_due, flush_to
from barnabas.broker.role import NEXT, Role
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.broker.uncommitted import Outcome, UncommittedBatches
from barnabas.config.topic import TopicConfig
from barnabas.log.config import INT64_MAX
from barnabas.log.log import Appended, Log
from barnabas.log.reader import BatchSlice
from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.model.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.delivery_delay import DeliveryDelay
    from barnabas.broker.replicas.leading import LeaderReplica
    from barnabas.log.producers.refused import RefusedBatches
    from barnabas.log.transactions.verification import VerificationGuard
    from barnabas.replication.follower import Follower
    from barnabas.replication.state import PartitionState

ACKS_ALL = -1
NO_EPOCH = -1
_OPEN = (Role.ASSIGNED, Role.LEADER, Role.FOLLOWER)


class Waiter(Protocol):
    """A request that waits for records of a partition."""

    def appended(self, size: int) -> None: ...

    def leadership_lost(self) -> None:
        """The partition was deleted, or another broker leads it now."""
        ...


class Partition:
    """Attributes may be read freely; only broker/replicas/roles.py changes the role."""

    __slots__ = (
        "_commits_immediately", "delay", "failure", "flush_after", "following", "in_sync", "leader",
        "leader_epoch", "leading", "log", "log_directory", "min_insync_replicas", "name",
        "offline_replicas", "on_commit", "on_leadership_lost", "partition_epoch", "refused",
        "replicas", "role", "uncommitted", "unsynced", "waiters",
    )  # fmt: skip

    def __init__(
        self,
        name: TopicPartition,
        log: Log,
        log_directory: OpenLogDirectory | None,
        broker: BrokerId,
        role: Role = Role.LEADER,
    ) -> None:
        self.name = name
        self.role = role
        self.log = log
        self.log_directory = log_directory  # None: the log is on another broker, or unreachable
        self.leader = broker
        self.leader_epoch = log.epochs.latest
        self.partition_epoch = 0
        self.replicas = [broker]
        self.in_sync = [broker]
        self.offline_replicas: list[BrokerId] = []  # of the others, from the controller
        self.min_insync_replicas = 1
        self.flush_after: int | None = None  # records that may be unsynced; None: any number
        self.waiters: dict[Waiter, None] = {}  # in order of arrival
        self.on_commit: Callable[[], None] | None = None  # called when the high watermark advances
        self.on_leadership_lost: Callable[[], object] | None = None  # when it stops leading
        self.failure = ""  # why its log directory is offline
        self.delay: DeliveryDelay | None = None  # of a topic with delayed delivery
        self.refused: RefusedBatches | None = None  # None: no batch must come again first
        self.leading: LeaderReplica | None = None  # in a cluster, if it leads
        self.following: Follower | None = None
        self.uncommitted = UncommittedBatches()
        # Only for a leader in a cluster: batches that the leader itself must sync.
        self.unsynced = UncommittedBatches()
        self._commits_immediately = True

    @property
    def commits_immediately(self) -> bool:
        """A record is committed when it is appended: nothing has to be waited for."""
        return self._commits_immediately

    def configure(self, config: TopicConfig) -> None:
        if self.leading is not None:
            self.leading.catch_up()
        self.min_insync_replicas = config.min_insync_replicas
        messages = config.flush_messages
        self.flush_after = None if messages == INT64_MAX else messages
        self._update_commit_mode()
        if self.leading is not None:
            self.leading.configure(self.min_isr)
            self.commit_to(self.leading.high_watermark)

    def _update_commit_mode(self) -> None:
        alone = self.leading is None or self.leading.alone
        self._commits_immediately = alone and self.flush_after is None

    @property
    def min_isr(self) -> int:
        """As in Kafka, never more than the number of replicas."""
        return min(self.min_insync_replicas, len(self.replicas))

    # Appending

    def append(
        self,
        batch: memoryview,
        acks: int,
        wall_ms: int,
        *,
        ours: bool = False,
        guard: "VerificationGuard | None" = None,
    ) -> Appended:
        """Append one batch from a producer. The view is modified: see Log.append, also for `ours`.

        If a record is committed only after a sync or by other replicas, see `wait_for`.
        """
        may_be_few = acks == ACKS_ALL and len(self.in_sync) < self.min_insync_replicas
        if may_be_few and len(self.in_sync) < self.min_isr:
            raise not_enough_replicas(self, Code.NOT_ENOUGH_REPLICAS)
        if (
            self.flush_after is not None
            and self.log_directory is not None
            and self.log_directory.cannot_sync
        ):
            raise Failed(Code.KAFKA_STORAGE_ERROR, f"{self.name}: {self.log_directory.cannot_sync}")
        try:
            appended = self.log.append(batch, self.leader_epoch, wall_ms, ours=ours, guard=guard)
        except Failed as failure:
            self.check_disk_error(failure)
            raise
        if not appended.duplicate:
            if self._commits_immediately:
                self.log.advance_high_watermark(appended.last_offset + 1)
                if self.waiters:
                    self._wake(len(batch))
            else:
                self._await_commit(appended.last_offset + 1, len(batch))
        return appended

    def check_disk_error(self, failure: KafkaError) -> None:
        """A disk error takes the log directory offline."""
        if isinstance(failure.__cause__, OSError) and self.log_directory is not None:
            self.log_directory.fail(failure.__cause__)

    def appended(self, end: int, size: int) -> None:
        """`size` bytes up to `end` were appended to the log."""
        if self._commits_immediately:
            self._commit(end, size)
        else:
            self._await_commit(end, size)

    def _await_commit(self, end: int, size: int) -> None:
        leading = self.leading
        flush = self.flush_after is not None and flush_is_due(self)
        self.uncommitted.add(end, size)
        if leading is not None:
            leading.records_available()
        if flush:
            if leading is not None:
                self.unsynced.add(end, size)
            flush_to(self, end)
        else:
            self.stored_here(end)

    def stored_here(self, end: int) -> None:
        """The leader's copy is complete up to `end`; if no other replica is required, it is
        committed."""
        if self.leading is None:
            self.commit_to(end)
        else:
            self.commit_to(self.leading.appended(end))

    def _commit(self, end: int, size: int) -> None:
        self.log.advance_high_watermark(end)
        if self.waiters:
            self._wake(size)

    def _wake(self, size: int) -> None:
        for waiter in tuple(self.waiters):
            waiter.appended(size)

    def commit_to(self, offset: int) -> None:
        """Records below `offset` are committed: complete the requests that wait for them."""
        if offset <= self.log.high_watermark:
            return
        size, waiting = self.uncommitted.take_up_to(offset)
        self._commit(offset, size)
        if self.leading is not None:
            self.leading.committed()
        for complete in waiting:
            complete(None)
        if self.on_commit is not None:
            self.on_commit()

    def follow_high_watermark(self, offset: int, size: int) -> None:
        """Adopt the leader's high watermark, limited to the records here; `size` bytes are new."""
        if offset > self.log.high_watermark:
            self._commit(offset, max(size, 1))

    @property
    def is_unsynced(self) -> bool:
        """Whether more records are unsynced than `flush.messages` allows. A crash, or an earlier
        role, may have left them."""
        if self.flush_after is None:
            return False
        return self.log.end_offset - self.log.durable_offset >= self.flush_after

    # Waiting

    def wait_for(self, offset: int, acks: int) -> DeferredReply[Outcome] | None:
        """Wait until the record is stored as `acks` requires; None: it already is."""
        if acks != ACKS_ALL and self.leading is not None:
            return self.unsynced.wait(offset) if self.unsynced else None
        return self.wait_for_commit(offset)

    def wait_for_commit(self, offset: int) -> DeferredReply[Outcome] | None:
        """Wait until the record is committed; None: it already is."""
        if self.log.high_watermark > offset:
            return None
        answer = self.uncommitted.wait(offset)
        if answer is None:
            answer = DeferredReply()
            answer.set(log_truncated(self) if self.role is Role.LEADER else not_served(self))
        return answer

    def isr_changed(self, in_sync: list[BrokerId]) -> None:
        """Below min.insync.replicas nothing is committed: fail waiting requests now, not at a
        timeout."""
        self.in_sync = in_sync
        if len(in_sync) < self.min_isr and self.uncommitted:
            problem = not_enough_replicas(self, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            self.uncommitted.fail_waiting(problem)

    # Reading

    def read(
        self, offset: int, bytes_max: int, min_one: bool, *, stable: bool = False
    ) -> BatchSlice:
        """Whole batches below the high watermark; `stable`: below the last stable offset."""
        log = self.log
        limit = log.last_stable_offset if stable else log.high_watermark
        if self.delay is not None:
            limit = min(limit, self.delay.end())
        try:
            return log.read(offset, bytes_max, limit, min_one)
        except OSError as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: OSError) -> KafkaError:
        """A disk error takes the log directory offline; the result is the client's answer."""
        if self.log_directory is not None:
            self.log_directory.fail(error)
        return disk_error(self, error)

    def check_leader_epoch(self, claimed: int) -> None:
        """A client that knows an older or a newer leader must refresh its metadata first."""
        if claimed != self.leader_epoch and claimed != NO_EPOCH:  # noqa: PLR1714 (builds a tuple)
            raise other_leader_epoch(self, claimed)

    # Roles

    @property
    def is_open(self) -> bool:
        """The log can be written and read, in any role."""
        return self.role in _OPEN

    def _become(self, role: Role) -> None:
        assert role in NEXT[self.role], f"{self.name}: {self.role} cannot become {role}"
        self.role = role

    def lead(self, state: "PartitionState", leading: "LeaderReplica") -> None:
        """This broker leads from now on; the epoch is in the log before the epoch's first
        record."""
        self._leave_role(state)
        log = self.log
        log.begin_epoch(state.leader_epoch)
        self._take(state)
        self.leading = leading
        self._become(Role.LEADER)
        self._update_commit_mode()
        if log.end_offset > log.high_watermark:  # this leader decides whether these are committed
            self.uncommitted.add(log.end_offset, 0)
        leading.configure(self.min_isr)
        self.commit_to(leading.high_watermark)
        if self.is_unsynced:
            self.unsynced.add(log.end_offset, 0)
            flush_to(self, log.end_offset)

    def assign_log(self, log: Log, log_directory: OpenLogDirectory) -> None:
        """This broker has a replica from now on; it waits for its role."""
        self._become(Role.ASSIGNED)
        self.log, self.log_directory = log, log_directory
        self.leader_epoch = self.partition_epoch = NO_EPOCH

    def stop(self) -> None:
        """The replica stays, without a role."""
        self._leave_role()

    def drop_log(self) -> None:
        """This broker has no replica any more."""
        self._end(Role.ABSENT)
        self.log, self.log_directory, self.failure = cast(Log, NoLog()), None, ""

    def follow(self, state: "PartitionState", following: "Follower | None") -> None:
        """Another broker leads, or none (None)."""
        self._leave_role(state)
        # An epoch without a record has no meaning, and the leader may not know it.
        self.log.epochs.truncate_end(self.log.end_offset)
        self._take(state)
        self.following = following
        self._become(Role.FOLLOWER)

    def _leave_role(self, state: "PartitionState | None" = None) -> None:
        led = self.leading is not None
        self.leading = self.following = None
        self._become(Role.ASSIGNED)
        if state is not None:  # waiting requests are answered with the new leader
            self.leader, self.leader_epoch = state.leader, state.leader_epoch
        if led:
            self._leadership_lost()

    def _leadership_lost(self) -> None:
        problem = leadership_lost(self)
        self.unsynced.fail(problem)
        self.uncommitted.fail(problem)
        for waiter in tuple(self.waiters):
            waiter.leadership_lost()
        if self.on_leadership_lost is not None:
            self.on_leadership_lost()

    def _take(self, state: "PartitionState") -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = list(state.replicas)
        self.isr_changed(list(state.isr))

    def update_metadata(self, state: "PartitionState") -> None:
        """UpdateMetadata: what clients see. For a replica on this broker, LeaderAndIsr decides."""
        if self.log_directory is None or self.failure:
            self._take(state)
            return
        if (self.leader_epoch, self.partition_epoch) < state.epochs:
            self.replicas = list(state.replicas)
            if self.leading is None:
                self.in_sync = list(state.isr)

    def update_state(self, state: "PartitionState") -> None:
        """The controller repeats the state of the same leadership."""
        self._take(state)
        self._update_commit_mode()

    # End of the replica

    def moved(self, log: Log, to: OpenLogDirectory) -> None:
        """The same records, in another directory."""
        self.log, self.log_directory = log, to

    def fail(self, reason: str) -> None:
        """Its log directory is offline: fail the waiting requests."""
        self.failure = reason
        self._end(Role.OFFLINE)

    def close(self) -> None:
        """The partition cannot be used any more."""
        self._end(Role.CLOSED)

    def _end(self, role: Role) -> None:
        self._become(role)
        self.leading = self.following = None
        self._leadership_lost()
