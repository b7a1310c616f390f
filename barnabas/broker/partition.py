"""One partition as this broker sees it: its log, its leader epoch, and who waits for it.

In: batches from producers, reads from consumers. Out: offsets and file slices, or a KafkaError.
Always: the high watermark never goes back; whoever waits for data is told once per append.
Not here: the files (log/), the shape of requests (handlers/).
"""

from collections.abc import Callable
from typing import Protocol, cast

from barnabas.broker.later import Later
from barnabas.broker.volume import Volume
from barnabas.config.topic import TopicConfig
from barnabas.log.config import INT64_MAX, LogConfig
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.log import Appended, Log
from barnabas.log.reading import Slice
from barnabas.model.errors import Code, Failed, Retriable
from barnabas.model.ids import BrokerId, TopicPartition

ACKS_ALL = -1


class Waiter(Protocol):
    """Someone who waits for records in a partition."""

    def appended(self, size: int) -> None: ...

    def gone(self) -> None:
        """The partition was deleted, or is led by another broker now."""
        ...


class Partition:
    """The leader's view; on a single broker, every partition is led here."""

    __slots__ = (
        "_uncommitted", "failure", "flush_after", "in_sync", "leader", "leader_epoch", "log",
        "min_insync_replicas", "name", "on_commit", "on_lost", "online", "replicas", "volume",
        "waiters",
    )  # fmt: skip

    def __init__(
        self,
        name: TopicPartition,
        log: Log,
        volume: Volume | None,
        broker: BrokerId,
    ) -> None:
        self.name = name
        self.log = log
        self.volume = volume
        self.leader = broker
        self.leader_epoch = log.epochs.latest
        self.replicas = [broker]
        self.in_sync = [broker]
        self.min_insync_replicas = 1
        self.flush_after: int | None = None  # records that may be unsynced; None: any number
        self.waiters: dict[Waiter, None] = {}  # in the order they came
        self.on_commit: Callable[[], None] | None = None  # records of before are committed now
        self.on_lost: Callable[[], object] | None = None  # nothing will be committed any more
        self.online = True
        self.failure = ""  # why its log directory is offline
        self._uncommitted: list[tuple[int, list[Callable[[str], None]]]] = []

    def configure(self, config: TopicConfig) -> None:
        self.min_insync_replicas = config.min_insync_replicas
        messages = config.flush_messages
        self.flush_after = None if messages == INT64_MAX else messages

    def append(self, batch: memoryview, acks: int, wall_ms: int, *, ours: bool = False) -> Appended:
        """One batch from a producer. The view is written to: see Log.append, also for `ours`.

        Where the log is flushed before it is read, the watermark follows later: see `committed`.
        """
        if acks == ACKS_ALL:
            # As in Kafka: more than there are replicas is never asked for.
            needed = min(self.min_insync_replicas, len(self.replicas))
            if len(self.in_sync) < needed:
                raise Retriable(
                    Code.NOT_ENOUGH_REPLICAS,
                    f"{self.name} has {len(self.in_sync)} replicas in sync, {needed} are needed"
                    f" (min.insync.replicas = {self.min_insync_replicas})",
                )
        try:
            appended = self.log.append(batch, self.leader_epoch, wall_ms, ours=ours)
        except Failed as failure:
            if isinstance(failure.__cause__, OSError) and self.volume is not None:
                self.volume.fail(failure.__cause__)
            raise
        if not appended.duplicate:
            if self.flush_after is not None and self._flush_is_due():
                self._flush(len(batch))
            else:
                self._commit(appended.last_offset + 1, len(batch))
        return appended

    def _commit(self, end: int, size: int) -> None:
        self.log.advance_high_watermark(end)
        if self.waiters:
            for waiter in tuple(self.waiters):
                waiter.appended(size)

    # Records that count only once they are synced

    def _flush_is_due(self) -> bool:
        log = self.log
        unsynced = log.end_offset - log.durable_offset
        return bool(self._uncommitted) or unsynced >= (self.flush_after or 0)

    def _flush(self, size: int) -> None:
        end = self.log.end_offset
        self._uncommitted.append((end, []))
        self._flush_to(end, size)

    def _flush_to(self, end: int, size: int) -> None:
        log, volume = self.log, self.volume
        assert volume is not None
        volume.flush(log).then(lambda reason: self._flushed(log, end, size, reason))

    def _flushed(self, log: Log, end: int, size: int, reason: str) -> None:
        if reason and self.online and log is not self.log:  # moved: it is elsewhere now
            self._flush_to(end, size)
            return
        if not reason:
            self._commit(end, size)
        done = [tell for offset, waiting in self._uncommitted if offset <= end for tell in waiting]
        self._uncommitted = [each for each in self._uncommitted if each[0] > end]
        for tell in done:
            tell(reason)
        if self.on_commit is not None and not reason:
            self.on_commit()

    def committed(self, offset: int) -> Later[str] | None:
        """When the record there counts: the answer is empty, or says why it never will.

        None: it does already.
        """
        if self.log.high_watermark > offset:
            return None
        answer: Later[str] = Later()
        for end, waiting in self._uncommitted:
            if end > offset:
                waiting.append(answer.set)
                return answer
        answer.set(self.failure or "the log was cut")
        return answer

    def read(self, offset: int, bytes_max: int, min_one: bool) -> Slice:
        """Whole batches below the high watermark."""
        log = self.log
        try:
            return log.read(offset, bytes_max, log.high_watermark, min_one)
        except OSError as error:
            if self.volume is not None:
                self.volume.fail(error)
            raise Failed(Code.KAFKA_STORAGE_ERROR, f"{self.name}: {error}") from error

    def check_leader_epoch(self, claimed: int) -> None:
        """A client that knows an older or a newer leader must refresh before it goes on."""
        if claimed in (-1, self.leader_epoch):
            return
        code = (
            Code.FENCED_LEADER_EPOCH if claimed < self.leader_epoch else Code.UNKNOWN_LEADER_EPOCH
        )
        raise Retriable(code, f"{self.name} is in leader epoch {self.leader_epoch}, not {claimed}")

    def moved(self, log: Log, to: Volume) -> None:
        """The same records, in another directory."""
        self.log, self.volume = log, to

    def fail(self, reason: str) -> None:
        """Its log directory is offline; who waits is told so."""
        self.failure = reason
        self.close()

    def close(self) -> None:
        """Nobody finds anything here any more."""
        self.online = False
        for waiter in tuple(self.waiters):
            waiter.gone()
        if self.on_lost is not None:
            self.on_lost()


class NoLog:
    """Stands where a log would, of a partition whose log directory could not be opened."""

    start_offset = end_offset = high_watermark = size = 0

    def __init__(self) -> None:
        self.epochs = LeaderEpochs([])
        self.config = LogConfig()


def lost_partition(name: TopicPartition, broker: BrokerId, reason: str) -> Partition:
    """One that is there, and cannot be reached until a restart finds its directory well."""
    partition = Partition(name, cast(Log, NoLog()), None, broker)
    partition.fail(reason)
    return partition
