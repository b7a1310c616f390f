"""One partition in a window: which of its records wait, run or are finished.

Always: records that share a lane run one after another, in the order of their offsets; the end of
the finished prefix is never past a record that is not finished.
Not here: when a record runs (turns.py), how it leaves (outbox.py).
"""

from collections import deque
from enum import Enum
from typing import NamedTuple

from barnabas.client.workers.effects import SendLetter
from barnabas.client.workers.letters import Incoming, LetterTrail, headers_of
from barnabas.client.workers.outbox import Intent, LetterOutbox, LetterProducer
from barnabas.client.workers.policy import WINDOW_MAX, FailureRoute, RecordOrder
from barnabas.model.ids import TopicPartition


class RecordState(Enum):
    """Of one record."""

    BEHIND = "another in its lane"
    DELAYED = "until its time has come"
    READY = "for a free hand"
    RUNNING = "in the handler"
    LEAVING = "for the retry or dead-letter topic"
    FINISHED = "handled, or safe in another topic"
    DROPPED = "the partition is no longer ours"


class WindowRecord:
    """One record on its way through the window."""

    __slots__ = ("failures", "lane", "record", "reject", "runs", "share", "state", "trail")

    def __init__(self, record: Incoming, trail: LetterTrail, share: "WindowPartition") -> None:
        self.record = record
        self.trail = trail
        self.share = share
        self.state = RecordState.BEHIND
        self.lane: bytes | None = None
        self.failures = 0  # here, in this round
        self.runs = 0  # calls of the handler here: tells the timeouts of one from another's
        self.reject = False  # no retry can mend it

    def __repr__(self) -> str:
        record = self.record
        return f"Entry({record.topic}:{record.partition}:{record.offset}, {self.state.name})"


class CommitContent(NamedTuple):
    """What a commit says."""

    offset: int
    metadata: str
    intent: Intent | None


class WindowPartition:
    """What one worker knows of one partition, from when it is given until it is taken away."""

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
            None  # whom the outbox's intent is for, once it has come
        )
        self.position = -1  # behind the last record that came; -1 before the first
        self.saved = CommitContent(committed, metadata, self.outbox.intent)
        self.saving: CommitContent | None = None  # asked of the broker, not answered
        self.changed = False  # since the last commit was asked for
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
        """Take it in; does it come first in its lane?"""
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
        """The worker before us decided that it leaves: it is handled no more, nobody waits."""
        trail = trail._replace(
            cause=intent.cause, attempts=intent.attempts, failed_at=intent.failed_at
        )
        entry = WindowRecord(record, trail, self)
        entry.reject = intent.not_before < 0  # it was on its way to the dead-letter topic
        self.position = record.offset + 1
        self.entries.append(entry)
        entry.state = RecordState.LEAVING
        self.leaving = entry

    def intend(self, entry: WindowRecord, way: FailureRoute, partitions: int) -> None:
        """The first record that waits leaves this way, to a topic of so many partitions."""
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
        """The record that leaves, as its intent says."""
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

    def skip(self, offset: int) -> None:
        """Nothing is to be done for the record at `offset`."""
        self.position = offset + 1
        self.changed = True

    def finish(self, entry: WindowRecord) -> WindowRecord | None:
        """It is done; the one behind it in its lane, which may go now."""
        entry.state = RecordState.FINISHED
        self.changed = True
        entries = self.entries
        while entries and entries[0].state is RecordState.FINISHED:
            entries.popleft()
        if entry.lane is None:
            return None
        lane = self.lanes[entry.lane]
        assert lane[0] is entry
        lane.popleft()
        if lane:
            return lane[0]
        del self.lanes[entry.lane]
        return None

    def is_full(self, window: int) -> bool:
        """But a window smaller than that of the worker before us must not keep away the record
        that its intent is for: the outbox waits for it, and others wait for the outbox."""
        if self.outbox.intent is not None and self.leaving is None:
            window = WINDOW_MAX
        return len(self.entries) >= window
