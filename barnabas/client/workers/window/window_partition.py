"""One partition in a window: its waiting, running and finished records.

Always: records that share a lane run one after another, in the order of their offsets; the end of
the finished prefix is never past a record that is not finished.
Not here: when a record runs (handler_calls.py), how it is moved (outbox.py).
"""

from collections import deque
from enum import Enum
from typing import NamedTuple

from barnabas.client.producer.record import ProducerRecord
from barnabas.client.workers.dead_letter_headers import Incoming, LetterTrail, headers_of
from barnabas.client.workers.policy import WINDOW_MAX, FailureRoute, RecordOrder
from barnabas.client.workers.window.effects import SendLetter
from barnabas.client.workers.window.outbox import Intent, LetterOutbox, LetterProducer
from barnabas.model.ids import TopicPartition


class RecordState(Enum):
    """Of one record."""

    BEHIND = "waits for an earlier record in its lane"
    DELAYED = "waits for its retry time"
    READY = "ready, waits for a free slot"
    RUNNING = "in the handler"
    LEAVING = "for the retry or dead-letter topic"
    HANDLED = "its results, or its dead letter, wait for a transaction"
    WRITING = "in the open transaction"
    FINISHED = "handled, or safe in another topic"
    DROPPED = "the partition is no longer ours"


class WindowRecord:
    """One record on its way through the window."""

    __slots__ = (
        "failures",
        "is_letter",
        "lane",
        "record",
        "reject",
        "results",
        "runs",
        "share",
        "state",
        "trail",
    )

    def __init__(self, record: Incoming, trail: LetterTrail, share: "WindowPartition") -> None:
        self.record = record
        self.trail = trail
        self.share = share
        self.state = RecordState.BEHIND
        self.lane: bytes | None = None
        self.failures = 0  # failures in this worker, in this round
        self.runs = 0  # calls of the handler in this worker: identifies the call of a timeout
        self.reject = False  # a retry cannot help
        self.results: tuple[ProducerRecord, ...] = ()  # of the handler, or its letter
        self.is_letter = False  # its result is a record of the retry or dead-letter topic

    def __repr__(self) -> str:
        record = self.record
        return f"WindowRecord({record.topic}:{record.partition}:{record.offset}, {self.state.name})"


class CommitContent(NamedTuple):
    """An offset to commit, with metadata."""

    offset: int
    metadata: str
    intent: Intent | None


class WindowPartition:
    """The state of one partition in one worker, from its assignment until it is revoked."""

    __slots__ = (
        "at",
        "changed",
        "drain_until",
        "entries",
        "identifying",
        "lanes",
        "leaving",
        "outbox",
        "paused",
        "position",
        "running",
        "saved",
        "saving",
        "sending",
        "term",
    )

    def __init__(self, at: TopicPartition, term: int, committed: int, metadata: str) -> None:
        self.at = at
        self.term = term
        self.entries: deque[WindowRecord] = deque()  # from the first unfinished one on
        self.lanes: dict[bytes, deque[WindowRecord]] = {}
        self.outbox = LetterOutbox(committed, metadata)
        self.leaving: WindowRecord | None = (
            None  # the record of the outbox's intent, once it was fetched
        )
        self.position = -1  # offset after the last fetched record; -1 before the first
        self.saved = CommitContent(committed, metadata, self.outbox.intent)
        self.saving: CommitContent | None = None  # sent to the broker, no response yet
        self.changed = False  # since the last commit was requested
        self.identifying = False
        self.sending = False
        self.running = 0
        self.paused = False
        self.drain_until: int | None = None

    @property
    def draining(self) -> bool:
        return self.drain_until is not None

    def finished_prefix(self) -> int:
        """The offset to commit, -1 if there is none."""
        return self.entries[0].record.offset if self.entries else self.position

    def to_save(self) -> CommitContent | None:
        """What to commit, or None if there is nothing new."""
        offset = self.finished_prefix()
        if offset < 0:
            return None
        saved = CommitContent(offset, self.outbox.metadata(offset), self.outbox.intent)
        return saved if saved != self.saved else None

    def admit(self, entry: WindowRecord, order: RecordOrder) -> bool:
        """Add a record. Returns whether it is the first in its lane."""
        self.position = entry.record.offset + 1
        self.entries.append(entry)
        if order is RecordOrder.NONE:
            return True
        key = entry.record.key if order is RecordOrder.KEY else b""
        if key is None:
            return True
        entry.lane = key
        lane = self.lanes.get(key)
        if lane is None:
            self.lanes[key] = deque((entry,))
            return True
        lane.append(entry)
        return False

    def admit_intended(self, record: Incoming, trail: LetterTrail, intent: Intent) -> None:
        """The previous worker decided to move the record: it is not handled again, and no record
        waits for it.
        """
        trail = trail._replace(
            cause=intent.cause, attempts=intent.attempts, failed_at=intent.failed_at
        )
        entry = WindowRecord(record, trail, self)
        entry.reject = intent.not_before < 0  # it was being moved to the dead-letter topic
        self.position = record.offset + 1
        self.entries.append(entry)
        entry.state = RecordState.LEAVING
        self.leaving = entry

    def intend(self, entry: WindowRecord, way: FailureRoute, partitions: int) -> None:
        """Start to move the first waiting record, to a topic with this many partitions."""
        trail = entry.trail
        self.outbox.take_waiting()
        self.leaving = entry
        self.outbox.intend(
            entry.record.offset,
            TopicPartition(way.topic, self.at.partition % partitions),
            cause=trail.cause,
            attempts=trail.attempts,
            round_=way.round,
            failed_at=trail.failed_at,
            not_before=way.not_before,
        )

    def letter(self) -> SendLetter:
        """The record to send, as its intent describes it."""
        intent, entry = self.outbox.intent, self.leaving
        assert intent is not None
        assert entry is not None
        trail = entry.trail._replace(
            cause=intent.cause,
            attempts=intent.attempts,
            round=intent.round,
            failed_at=intent.failed_at,
            not_before=intent.not_before,
        )
        record = entry.record
        return SendLetter(
            self.at,
            self.term,
            intent.offset,
            LetterProducer(intent.producer_id, intent.epoch),
            intent.sequence,
            TopicPartition(intent.topic, intent.partition),
            record.timestamp,
            record.key,
            record.value,
            trail.headers(headers_of(record)),
        )

    def take_leaving(self) -> WindowRecord:
        """Its record is in the other topic, or must start again."""
        entry, self.leaving = self.leaving, None
        assert entry is not None
        return entry

    def skip(self, offset: int) -> None:
        """The record at `offset` needs no work."""
        self.position = offset + 1
        self.changed = True

    def finish(self, entry: WindowRecord) -> None:
        """The record is finished: the prefix may have grown."""
        entry.state = RecordState.FINISHED
        self.changed = True
        entries = self.entries
        while entries and entries[0].state is RecordState.FINISHED:
            entries.popleft()

    def leave_lane(self, entry: WindowRecord) -> WindowRecord | None:
        """Returns the next record of its lane, which may run now."""
        if entry.lane is None:
            return None
        key, entry.lane = entry.lane, None
        lane = self.lanes[key]
        assert lane[0] is entry
        lane.popleft()
        if lane:
            return lane[0]
        del self.lanes[key]
        return None

    def is_full(self, window: int) -> bool:
        """Whether the window has room for the record. If the previous worker had a larger window,
        the record of its intent must be taken all the same: the outbox waits for it, and other
        records wait for the outbox.
        """
        if self.outbox.intent is not None and self.leaving is None:
            window = WINDOW_MAX
        return len(self.entries) >= window
