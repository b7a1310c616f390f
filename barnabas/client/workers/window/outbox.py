"""Moves a record from its partition to the retry or dead-letter topic exactly once.

In: records that failed, responses to commits and sends. Out: an intent to commit, then to send.
Always: a record is sent only after its intent was committed, and the group's generation fences that
commit. Every worker that sends for the intent uses the producer id and sequence number in it, so
the broker drops all copies but the first. There is one intent at a time per partition. A worker's
own letters have a producer id that no other worker uses. Every commit names the records after its
offset that were moved already.
Not here: when to commit (at_least_once.py), the headers (dead_letter_headers.py).
Why: docs/adr/0011.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import msgspec

from barnabas.client.workers.dead_letter_headers import CAUSE_SIZE_MAX
from barnabas.client.workers.policy import WINDOW_MAX
from barnabas.model.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.workers.window.window_partition import WindowRecord

VERSION = 1
METADATA_SIZE_MAX = 4_096  # Kafka's offset.metadata.max.bytes
GONE_SIZE_MAX = 2_400  # as text: with the longest intent it fits into the metadata
_SEQUENCE_MASK = 0x7FFF_FFFF
_INT16_MAX = 0x7FFF
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


class Intent(msgspec.Struct, frozen=True, array_like=True):
    """The record at `offset` is sent there, with this sequence number. The intent has all values of
    its headers: another worker can send it without calling the handler again.
    """

    offset: int
    topic: str
    partition: int
    producer_id: int
    epoch: int
    sequence: int
    cause: str
    attempts: int
    round: int
    failed_at: int
    not_before: int


class Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """The metadata of a commit, if it has any."""

    barnabas: int  # the version of this format
    out: Intent | None = None
    # records after the offset as run lengths: not moved, moved, not moved, and so on
    gone: list[int] = []


@dataclass(frozen=True, slots=True)
class LetterProducer:
    """Of a producer."""

    producer_id: int
    epoch: int


class LetterOutbox:
    """The outbox of one partition."""

    __slots__ = ("_sequences", "_waiting", "gone", "identity", "intent")

    def __init__(self, committed: int = -1, metadata: str = "") -> None:
        saved = read_metadata(metadata)
        self.identity: LetterProducer | None = None  # requested when the first record is moved
        self.intent = saved.out if saved else None  # at first the intent of the previous worker
        # finished records after the committed offset, in order
        self.gone = offsets_of(saved.gone, committed) if saved else []
        self._waiting: list[tuple[int, WindowRecord]] = []
        self._sequences: dict[TopicPartition, int] = {}

    def metadata(self, prefix: int) -> str:
        """To be committed with `prefix`; most often empty."""
        del self.gone[: bisect_left(self.gone, prefix)]
        return self.text(self.gone, prefix)

    def text(self, gone: list[int], prefix: int) -> str:
        """The metadata that names these records after `prefix` as moved or handled."""
        if self.intent is None and not gone:
            return ""
        saved = Metadata(VERSION, self.intent, runs_of(gone, prefix))
        return msgspec.json.encode(saved).decode()

    # Waiting records, in the order of the partition

    def wait(self, entry: "WindowRecord") -> None:
        heappush(self._waiting, (entry.record.offset, entry))

    def next_waiting(self, prefix: int) -> "WindowRecord | None":
        """The next record to move. None also if the metadata of a commit has no room for another:
        then only the first of all may move.
        """
        if not self._waiting:
            return None
        offset, entry = self._waiting[0]
        if offset > prefix and self.gone:
            named = str(runs_of(self.gone, prefix))
            return entry if len(named) < GONE_SIZE_MAX else None
        return entry

    def take_waiting(self) -> None:
        heappop(self._waiting)

    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def drop_waiting(self) -> None:
        self._waiting.clear()

    def is_gone(self, offset: int) -> bool:
        """Whether the record was moved already."""
        index = bisect_left(self.gone, offset)
        return index < len(self.gone) and self.gone[index] == offset

    # The record that is being moved

    def intend(
        self,
        offset: int,
        to: TopicPartition,
        *,
        cause: str,
        attempts: int,
        round_: int,
        failed_at: int,
        not_before: int,
    ) -> None:
        """Start an intent. Requires an identity, and no other intent."""
        assert self.intent is None
        assert self.identity is not None
        self.intent = Intent(
            offset,
            to.topic,
            to.partition,
            self.identity.producer_id,
            self.identity.epoch,
            self._sequences.get(to, 0),
            cause,
            attempts,
            round_,
            failed_at,
            not_before,
        )

    def sent(self) -> None:
        """The broker has the record, from this worker or an earlier one."""
        intent = self.intent
        assert intent is not None
        if self.identity is not None and self.identity.producer_id == intent.producer_id:
            to = TopicPartition(intent.topic, intent.partition)
            self._sequences[to] = (intent.sequence + 1) & _SEQUENCE_MASK
        insort(self.gone, intent.offset)
        self.intent = None

    def forget(self) -> None:
        """Continue with another identity: the next sequence number is no longer known."""
        self.identity = None
        self.intent = None
        self._sequences.clear()


def runs_of(offsets: list[int], start: int) -> list[int]:
    """Rising offsets from `start` on as run lengths: not in the list, in it, and so on."""
    runs: list[int] = []
    position = start
    for offset in offsets:
        if runs and offset == position:
            runs[-1] += 1
        else:
            runs += [offset - position, 1]
        position = offset + 1
    return runs


def offsets_of(runs: list[int], start: int) -> list[int]:
    offsets: list[int] = []
    for index, length in enumerate(runs):
        if index % 2:
            offsets += range(start, start + length)
        start += length
    return offsets


def read_metadata(text: str) -> Metadata | None:
    """Reads the metadata of a commit; None if another tool wrote it."""
    if not text.startswith('{"barnabas":') or len(text) > METADATA_SIZE_MAX:
        return None
    try:
        saved = msgspec.json.decode(text, type=Metadata)
    except (msgspec.DecodeError, UnicodeError):
        return None
    fits = (
        saved.barnabas == VERSION
        and (saved.out is None or _plausible(saved.out))
        and all(0 <= length <= WINDOW_MAX for length in saved.gone)
        and sum(saved.gone[1::2]) <= WINDOW_MAX
    )
    return saved if fits else None


def _plausible(intent: Intent) -> bool:
    return (
        0 <= intent.offset < _INT64_MAX
        and 0 < len(intent.topic) <= 249
        and 0 <= intent.partition <= _SEQUENCE_MASK
        and 0 <= intent.producer_id <= _INT64_MAX
        and 0 <= intent.epoch <= _INT16_MAX
        and 0 <= intent.sequence <= _SEQUENCE_MASK
        and len(intent.cause.encode(errors="replace")) <= CAUSE_SIZE_MAX
        and 0 <= intent.attempts <= _INT64_MAX
        and 0 <= intent.round <= _INT64_MAX
        and -1 <= intent.failed_at <= _INT64_MAX
        and -1 <= intent.not_before <= _INT64_MAX
    )
