"""One partition as this broker sees it: its log, its leader epoch, and who waits for it.

In: batches from producers, reads from consumers. Out: offsets and file slices, or a KafkaError.
Always: the high watermark never goes back; whoever waits for data is told once per append.
Not here: the files (log/), the shape of requests (handlers/).
"""

from typing import Protocol

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
        "in_sync", "leader", "leader_epoch", "log", "min_insync_replicas", "name", "online",
        "replicas", "waiters",
    )  # fmt: skip

    def __init__(
        self, name: TopicPartition, log: Log, broker: BrokerId, min_insync_replicas: int
    ) -> None:
        self.name = name
        self.log = log
        self.leader = broker
        self.leader_epoch = log.epochs.latest
        self.replicas = [broker]
        self.in_sync = [broker]
        self.min_insync_replicas = min_insync_replicas
        self.waiters: dict[Waiter, None] = {}  # in the order they came
        self.online = True

    def append(self, batch: memoryview, acks: int, wall_ms: int, *, ours: bool = False) -> Appended:
        """One batch from a producer. The view is written to: see Log.append, also for `ours`."""
        if acks == ACKS_ALL:
            # As in Kafka: more than there are replicas is never asked for.
            needed = min(self.min_insync_replicas, len(self.replicas))
            if len(self.in_sync) < needed:
                raise Retriable(
                    Code.NOT_ENOUGH_REPLICAS,
                    f"{self.name} has {len(self.in_sync)} replicas in sync, {needed} are needed"
                    f" (min.insync.replicas = {self.min_insync_replicas})",
                )
        appended = self.log.append(batch, self.leader_epoch, wall_ms, ours=ours)
        if not appended.duplicate:
            self.log.advance_high_watermark(appended.last_offset + 1)
            if self.waiters:
                size = len(batch)
                for waiter in tuple(self.waiters):
                    waiter.appended(size)
        return appended

    def read(self, offset: int, bytes_max: int, min_one: bool) -> Slice:
        """Whole batches below the high watermark."""
        log = self.log
        try:
            return log.read(offset, bytes_max, log.high_watermark, min_one)
        except OSError as error:
            raise Failed(Code.KAFKA_STORAGE_ERROR, f"{self.name}: {error}") from error

    def check_leader_epoch(self, claimed: int) -> None:
        """A client that knows an older or a newer leader must refresh before it goes on."""
        if claimed in (-1, self.leader_epoch):
            return
        code = (
            Code.FENCED_LEADER_EPOCH if claimed < self.leader_epoch else Code.UNKNOWN_LEADER_EPOCH
        )
        raise Retriable(code, f"{self.name} is in leader epoch {self.leader_epoch}, not {claimed}")

    def close(self) -> None:
        """Nobody finds anything here any more."""
        self.online = False
        for waiter in tuple(self.waiters):
            waiter.gone()
