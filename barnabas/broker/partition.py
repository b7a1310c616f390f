"""One partition as this broker sees it: its log, its role, and who waits for it.

In: batches from producers, reads from consumers, what the controller says. Out: offsets and file
slices, or a KafkaError.
Always: the high watermark never goes back while one leads; whoever waits for data is told once
per move of it; who waits for a record to count is told that it does, or why that is not known.
Not here: the files (log/), the shape of requests (handlers/), what a leader decides
(broker/replicas/leading.py).

On a broker that stands alone every partition is led here, by a leader who is all replicas: then
`leading` is None and a record counts when it is appended.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.role import NEXT, Role
from barnabas.broker.storage.log_directory import OpenLogDirectory, storage_error
from barnabas.broker.uncommitted import Outcome, UncommittedBatches
from barnabas.config.topic import TopicConfig
from barnabas.log.config import INT64_MAX, LogConfig
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.log import Appended, Log
from barnabas.log.reader import BatchSlice
from barnabas.model.errors import Code, Failed, KafkaError, Retriable
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.model.system_errors import OUT_OF_RESOURCES

if TYPE_CHECKING:
    from barnabas.broker.replicas.leading import LeaderReplica
    from barnabas.log.transactions.verification import VerificationGuard
    from barnabas.replication.follower import Follower
    from barnabas.replication.state import PartitionState
    from barnabas.wire.control_records import EndMarker

ACKS_ALL = -1
NO_EPOCH = -1
_OPEN = (Role.ASSIGNED, Role.LEADER, Role.FOLLOWER)


class Waiter(Protocol):
    """Someone who waits for records in a partition."""

    def appended(self, size: int) -> None: ...

    def gone(self) -> None:
        """The partition was deleted, or is led by another broker now."""
        ...


class Partition:
    """Ask for attributes freely; the roles are changed by broker/replicas/roles.py alone."""

    __slots__ = (
        "_at_once",
        "_uncommitted",
        "_unsynced",
        "failure",
        "flush_after",
        "following",
        "in_sync",
        "leader",
        "leader_epoch",
        "leading",
        "log",
        "log_directory",
        "min_insync_replicas",
        "name",
        "offline_replicas",
        "on_commit",
        "on_lost",
        "partition_epoch",
        "replicas",
        "role",
        "waiters",
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
        self.log_directory = log_directory  # None: the log is elsewhere, or out of reach
        self.leader = broker
        self.leader_epoch = log.epochs.latest
        self.partition_epoch = 0
        self.replicas = [broker]
        self.in_sync = [broker]
        self.offline_replicas: list[BrokerId] = []  # as the controller said, of the others
        self.min_insync_replicas = 1
        self.flush_after: int | None = None  # records that may be unsynced; None: any number
        self.waiters: dict[Waiter, None] = {}  # in the order they came
        self.on_commit: Callable[[], None] | None = None  # records of before are committed now
        self.on_lost: Callable[[], object] | None = None  # nothing will be committed any more
        self.failure = ""  # why its log directory is offline
        self.leading: LeaderReplica | None = None  # in a cluster, if it leads
        self.following: Follower | None = None
        self._uncommitted = UncommittedBatches()
        self._unsynced = UncommittedBatches()  # of a leader in a cluster: what only it must sync
        self._at_once = True

    @property
    def counts_at_once(self) -> bool:
        """A record counts when it is appended: there is nothing to wait for."""
        return self._at_once

    def configure(self, config: TopicConfig) -> None:
        if self.leading is not None:
            self.leading.catch_up()
        self.min_insync_replicas = config.min_insync_replicas
        messages = config.flush_messages
        self.flush_after = None if messages == INT64_MAX else messages
        self._settle()
        if self.leading is not None:
            self.leading.configure(self.isr_min)
            self.commit_to(self.leading.high_watermark)

    def _settle(self) -> None:
        alone = self.leading is None or self.leading.alone
        self._at_once = alone and self.flush_after is None

    @property
    def isr_min(self) -> int:
        """As in Kafka: more than there are replicas is never asked for."""
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
        """One batch from a producer. The view is written to: see Log.append, also for `ours`.

        Where a record counts only once it is synced, or elsewhere too, see `wait_for`.
        """
        if acks == ACKS_ALL:
            needed = min(self.min_insync_replicas, len(self.replicas))
            if len(self.in_sync) < needed:
                raise self._too_few(Code.NOT_ENOUGH_REPLICAS)
        if (
            self.flush_after is not None
            and self.log_directory is not None
            and self.log_directory.cannot_sync
        ):
            raise Failed(Code.KAFKA_STORAGE_ERROR, f"{self.name}: {self.log_directory.cannot_sync}")
        try:
            appended = self.log.append(batch, self.leader_epoch, wall_ms, ours=ours, guard=guard)
        except Failed as failure:
            self.suspect(failure)
            raise
        if not appended.duplicate:
            if self._at_once:
                self._commit(appended.last_offset + 1, len(batch))
            else:
                self._appended(appended.last_offset + 1, len(batch))
        return appended

    def append_marker(
        self, producer_id: int, epoch: int, marker: "EndMarker", version: int, wall_ms: int
    ) -> Appended:
        """End a producer's transaction here: see `append_marker` of the log."""
        from barnabas.log.transactions.append import append_marker
        from barnabas.wire.control_records import MARKER_SIZE

        if len(self.in_sync) < min(self.min_insync_replicas, len(self.replicas)):
            raise self._too_few(Code.NOT_ENOUGH_REPLICAS)
        log = self.log
        try:
            appended = append_marker(
                log, producer_id, epoch, marker, version, self.leader_epoch, wall_ms
            )
        except Failed as failure:
            self.suspect(failure)
            raise
        if self._at_once:
            self._commit(appended.last_offset + 1, MARKER_SIZE)
        else:
            self._appended(appended.last_offset + 1, MARKER_SIZE)
        return appended

    def suspect(self, failure: KafkaError) -> None:
        """An error of the disk under it costs the log directory."""
        if isinstance(failure.__cause__, OSError) and self.log_directory is not None:
            self.log_directory.fail(failure.__cause__)

    def _appended(self, end: int, size: int) -> None:
        leading = self.leading
        flush = self.flush_after is not None and self._flush_is_due()
        self._uncommitted.add(end, size)
        if leading is not None:
            leading.news()
        if flush:
            if leading is not None:
                self._unsynced.add(end, size)
            self._flush_to(end)
        else:
            self._counts_here(end)

    def _counts_here(self, end: int) -> None:
        """This broker has it as it should; where that is enough, it is committed."""
        if self.leading is None:
            self.commit_to(end)
        else:
            self.commit_to(self.leading.appended(end))

    def _commit(self, end: int, size: int) -> None:
        self.log.advance_high_watermark(end)
        if self.waiters:
            for waiter in tuple(self.waiters):
                waiter.appended(size)

    def commit_to(self, offset: int) -> None:
        """Records below count from now on; who waited is told."""
        if offset <= self.log.high_watermark:
            return
        size, waiting = self._uncommitted.upto(offset)
        self._commit(offset, size)
        if self.leading is not None:
            self.leading.committed()
        for tell in waiting:
            tell(None)
        if self.on_commit is not None:
            self.on_commit()

    def followed_to(self, offset: int, size: int) -> None:
        """So much counts at the leader, of what is here; `size` bytes are new."""
        if offset > self.log.high_watermark:
            self._commit(offset, max(size, 1))

    # Records that count only once they are synced

    @property
    def is_unsynced(self) -> bool:
        """Is there more than may be lost with the power? A process that died may have left it, or
        whoever had another role a moment ago."""
        if self.flush_after is None:
            return False
        return self.log.end_offset - self.log.durable_offset >= self.flush_after

    def _flush_is_due(self) -> bool:
        log = self.log
        unsynced = log.end_offset - log.durable_offset
        waiting = self._uncommitted if self.leading is None else self._unsynced
        return bool(waiting) or unsynced >= (self.flush_after or 0)

    def _flush_to(self, end: int) -> None:
        log, log_directory, leading = self.log, self.log_directory, self.leading
        assert log_directory is not None
        log_directory.flush(log).then(lambda reason: self._flushed(log, end, reason, leading))

    def _flushed(self, log: Log, end: int, reason: str, leading: "LeaderReplica | None") -> None:
        if leading is not self.leading:  # who waited was told, and the log may have been cut
            return
        if reason and self.is_open and log is not self.log:  # moved: it is elsewhere now
            self._flush_to(end)
            return
        log_directory = self.log_directory
        if reason and self.is_open and log_directory is not None and log_directory.online:
            # Not durable yet, and perhaps never: nobody waits for it, but it may be synced later.
            problem: KafkaError = Retriable(Code.KAFKA_STORAGE_ERROR, f"{self.name}: {reason}")
            self._unsynced.disappoint(problem)
            self._uncommitted.disappoint(problem)
            log_directory.when_room(log, lambda: self._flush_again(log, leading))
            return
        if reason:
            problem = Failed(Code.KAFKA_STORAGE_ERROR, reason)
            self._unsynced.fail(problem)
            self._uncommitted.fail(problem)
            return
        _, waiting = self._unsynced.upto(end)
        self._counts_here(end)
        for tell in waiting:
            tell(None)

    def _flush_again(self, log: Log, leading: "LeaderReplica | None") -> None:
        if self.is_open and log is self.log and leading is self.leading:
            self._flush_to(log.end_offset)

    # Waiting

    def wait_for(self, offset: int, acks: int) -> DeferredReply[Outcome] | None:
        """Until the record there counts as far as the producer wants; None: it does."""
        if acks != ACKS_ALL and self.leading is not None:
            return self._unsynced.wait(offset) if self._unsynced else None
        return self.committed(offset)

    def committed(self, offset: int) -> DeferredReply[Outcome] | None:
        """When the record there counts; None: it does already."""
        if self.log.high_watermark > offset:
            return None
        answer = self._uncommitted.wait(offset)
        if answer is None:
            answer = DeferredReply()
            answer.set(_cut(self.name) if self.role is Role.LEADER else self.refusal())
        return answer

    def isr_changed(self, in_sync: list[BrokerId]) -> None:
        """Below the least, nothing counts any more: nobody need wait until they time out."""
        self.in_sync = in_sync
        if len(in_sync) < self.isr_min and self._uncommitted:
            self._uncommitted.disappoint(self._too_few(Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND))

    def _too_few(self, code: Code) -> Retriable:
        return Retriable(
            code,
            f"{self.name} has {len(self.in_sync)} in-sync replicas and requires {self.isr_min}"
            f" (min.insync.replicas = {self.min_insync_replicas})",
        )

    # Reading

    def read(
        self, offset: int, bytes_max: int, min_one: bool, *, stable: bool = False
    ) -> BatchSlice:
        """Whole batches below the high watermark; `stable`: below the last stable offset."""
        log = self.log
        limit = log.last_stable_offset if stable else log.high_watermark
        try:
            return log.read(offset, bytes_max, limit, min_one)
        except OSError as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: OSError) -> KafkaError:
        """Kafka's clients repeat a request that is answered so."""
        if self.log_directory is not None:
            self.log_directory.fail(error)
        kind = Retriable if error.errno in OUT_OF_RESOURCES else Failed
        return kind(Code.KAFKA_STORAGE_ERROR, f"{self.name}: {error}")

    def check_leader_epoch(self, claimed: int) -> None:
        """A client that knows an older or a newer leader must refresh before it goes on."""
        if claimed in (-1, self.leader_epoch):
            return
        code = (
            Code.FENCED_LEADER_EPOCH if claimed < self.leader_epoch else Code.UNKNOWN_LEADER_EPOCH
        )
        raise Retriable(code, f"{self.name} is in leader epoch {self.leader_epoch}, not {claimed}")

    def refusal(self) -> KafkaError:
        """Why nothing is written here, nor read as from a leader."""
        if self.failure:
            return storage_error(self.name, self.failure)
        if self.leader < 0:
            return Retriable(Code.NOT_LEADER_OR_FOLLOWER, f"{self.name} has no leader now")
        return Retriable(Code.NOT_LEADER_OR_FOLLOWER, f"{self.name} is led by broker {self.leader}")

    # Roles

    @property
    def is_open(self) -> bool:
        """The log can be written and read, in whatever role."""
        return self.role in _OPEN

    def _become(self, role: Role) -> None:
        assert role in NEXT[self.role], f"{self.name}: {self.role} cannot become {role}"
        self.role = role

    def lead(self, state: "PartitionState", leading: "LeaderReplica") -> None:
        """From now on this broker leads; the epoch is in the log before its first record is."""
        self._leave_role(state)
        log = self.log
        log.begin_epoch(state.leader_epoch)
        self._take(state)
        self.leading = leading
        self._become(Role.LEADER)
        self._settle()
        if log.end_offset > log.high_watermark:  # whether these count was left to this leader
            self._uncommitted.add(log.end_offset, 0)
        leading.configure(self.isr_min)
        self.commit_to(leading.high_watermark)
        if self.is_unsynced:
            self._unsynced.add(log.end_offset, 0)
            self._flush_to(log.end_offset)

    def take_log(self, log: Log, log_directory: OpenLogDirectory) -> None:
        """There is a replica here from now on; it waits for its role."""
        self._become(Role.ASSIGNED)
        self.log, self.log_directory = log, log_directory
        self.leader_epoch = self.partition_epoch = NO_EPOCH

    def stop(self) -> None:
        """The replica stays, without a role."""
        self._leave_role()

    def give_up_log(self) -> None:
        """There is none any more."""
        self._end(Role.ABSENT)
        self.log, self.log_directory, self.failure = cast(Log, NoLog()), None, ""

    def follow(self, state: "PartitionState", following: "Follower | None") -> None:
        """Another broker leads, or nobody (None)."""
        self._leave_role(state)
        # An epoch without a record says nothing, and the leader may not know it.
        self.log.epochs.truncate_end(self.log.end_offset)
        self._take(state)
        self.following = following
        self._become(Role.FOLLOWER)

    def _leave_role(self, state: "PartitionState | None" = None) -> None:
        led = self.leading is not None
        self.leading = self.following = None
        self._become(Role.ASSIGNED)
        if state is not None:  # who waits here is told where to go
            self.leader, self.leader_epoch = state.leader, state.leader_epoch
        if led:
            self._tell_lost()

    def _tell_lost(self) -> None:
        gone = Retriable(Code.NOT_LEADER_OR_FOLLOWER, f"this broker no longer leads {self.name}")
        problem = storage_error(self.name, self.failure) if self.failure else gone
        self._unsynced.fail(problem)
        self._uncommitted.fail(problem)
        for waiter in tuple(self.waiters):
            waiter.gone()
        if self.on_lost is not None:
            self.on_lost()

    def _take(self, state: "PartitionState") -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = list(state.replicas)
        self.isr_changed(list(state.isr))

    def told(self, state: "PartitionState") -> None:
        """What clients are to know; of a replica that is here, LeaderAndIsr has the last word."""
        if self.log_directory is None or self.failure:
            self._take(state)
            return
        if (self.leader_epoch, self.partition_epoch) < state.age:
            self.replicas = list(state.replicas)
            if self.leading is None:
                self.in_sync = list(state.isr)

    def restate(self, state: "PartitionState") -> None:
        """The same leadership, said anew."""
        self._take(state)
        self._settle()

    # Endings

    def moved(self, log: Log, to: OpenLogDirectory) -> None:
        """The same records, in another directory."""
        self.log, self.log_directory = log, to

    def fail(self, reason: str) -> None:
        """Its log directory is offline; who waits is told so."""
        self.failure = reason
        self._end(Role.OFFLINE)

    def close(self) -> None:
        """Nobody finds anything here any more."""
        self._end(Role.CLOSED)

    def _end(self, role: Role) -> None:
        self._become(role)
        self.leading = self.following = None
        self._tell_lost()


class NoLog:
    """Stands where a log would, of a partition whose log is elsewhere or cannot be opened."""

    start_offset = end_offset = high_watermark = size = 0

    def __init__(self) -> None:
        self.epochs = LeaderEpochs([])
        self.config = LogConfig()


def _cut(name: TopicPartition) -> KafkaError:
    return Failed(Code.KAFKA_STORAGE_ERROR, f"the log of {name} was truncated")


def lost_partition(name: TopicPartition, broker: BrokerId, reason: str) -> Partition:
    """One that is there, and cannot be reached until a restart finds its directory well."""
    partition = Partition(name, cast(Log, NoLog()), None, broker, Role.OFFLINE)
    partition.failure = reason
    return partition


def absent_partition(name: TopicPartition) -> Partition:
    """One that this broker has no replica of; `told` says where it is."""
    partition = Partition(name, cast(Log, NoLog()), None, BrokerId(-1), Role.ABSENT)
    partition.replicas, partition.in_sync = [], []
    return partition
