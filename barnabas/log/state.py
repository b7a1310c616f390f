"""What one partition's log consists of; its verbs are in appending.py, cutting.py and log.py.

In: what opening found. Out: the attributes that the verbs share.
"""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from barnabas.log.config import LogConfig
from barnabas.log.durability import Durability
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.findings import Finding
from barnabas.log.producers import ProducerStates
from barnabas.log.reading import Reader
from barnabas.log.segment import Segment
from barnabas.log.snapshots import Snapshots
from barnabas.log.warm import WarmSegments
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import Disk


class Appended(Struct, frozen=True, gc=False):
    """Where a batch is; `append_time_ms` is -1 unless the topic stamps its records."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    duplicate: bool


class LogParts(NamedTuple):
    """What opening found on disk; a Log is made of it."""

    segments: list[Segment]
    start_offset: int
    high_watermark: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: ProducerStates
    snapshots: Snapshots
    findings: list[Finding]
    new: bool
    cleaned_to: int = 0


class Deletion(NamedTuple):
    """A segment that went, and why."""

    partition: TopicPartition
    base_offset: int
    next_offset: int
    size: int
    cause: str


class LogState:
    """Ask for attributes freely; change the log only through its methods."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        warm: WarmSegments,
        parts: LogParts,
    ) -> None:
        self._disk = disk
        self._warm = warm
        self.path = path
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.segments = parts.segments
        self.start_offset = parts.start_offset
        self.high_watermark = parts.high_watermark
        self.epochs = parts.epochs
        self.producers = parts.producers
        self.findings = parts.findings
        self.size = sum(segment.size for segment in parts.segments)
        self.on_roll: Callable[[], None] | None = None
        self._snapshots = parts.snapshots
        self._active = parts.segments[-1]
        self._reader = Reader(parts.segments)
        self._reader.sparse = parts.cleaned_to > 0
        self._durability = Durability(
            disk, path, parts.snapshots, parts.epochs, parts.recovery_point, parts.new
        )
        self.end_offset = self._active.next_offset
        self.cleaned_to = parts.cleaned_to  # compaction goes on from here
        self.deletions: list[Deletion] = []  # since somebody took them
        self._causes: dict[int, str] = {}  # why the segment with this base offset goes
        self._doomed: list[str] = []
        self._failed = ""
        self.flushed_ms = 0  # when it was last flushed because of flush.ms; the broker's to set

    def __repr__(self) -> str:
        return f"Log({self.partition}, {self.start_offset}..{self.end_offset})"

    @property
    def recovery_point(self) -> int:
        """Where recovery starts after a crash."""
        return self._durability.recovery_point

    @property
    def cuts(self) -> int:
        """How often its end was cut off."""
        return self._durability.cuts

    @property
    def durable_offset(self) -> int:
        """Everything below survives a power loss."""
        return self._durability.durable_offset

    def _new_segment(self, base_offset: int) -> Segment:
        interval = self.config.index_interval_bytes
        return Segment.create(
            self._disk, self.path, base_offset, self._warm, self.findings, interval
        )
