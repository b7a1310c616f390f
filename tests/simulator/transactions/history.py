"""What clients did in transactions and were told, held against what the logs decide.

In: calls of clients and their answers; records and markers as they are committed; messages of
read_committed readers. Out: nothing, or a Violation.
Always: a transaction is committed or aborted, the same in every partition, and as its client was
told; what a client never asked to commit is not committed; each input has one committed output.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from barnabas.coordinators.groups.records import OffsetRecord, decode
from barnabas.model.ids import TopicPartition
from tests.simulator.transactions.plan import GROUP, INPUT, OUTPUT
from tests.simulator.truth import Keyed, Violation

OFFSETS_TOPIC = "__consumer_offsets"


class Fate(Enum):
    """Of a record."""

    PLAIN = "plain"
    MARKER = "marker"
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


VISIBLE = (Fate.PLAIN, Fate.COMMITTED)


@dataclass
class Attempt:
    """One transaction, as its client sees it. `said`: what the client was told, if anything."""

    key: str
    protocol: int
    sent: list[bytes] = field(default_factory=list)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    asked_to_commit: bool = False
    said: bool | None = None
    decided: dict[TopicPartition, bool] = field(default_factory=dict)

    @property
    def outcome(self) -> bool | None:
        """As the logs have it; None: nowhere."""
        return next(iter(self.decided.values()), None)


@dataclass
class Stability:
    """One partition: the fate of each record, as far as it is committed."""

    fates: list[Fate] = field(default_factory=list)
    open: dict[int, list[int]] = field(default_factory=dict)  # by producer: offsets
    owners: dict[int, str] = field(default_factory=dict)  # by offset: the key of the attempt
    soon: dict[int, bool] = field(default_factory=dict)  # by offset: readers may know already
    aborts: int = 0

    def fate(self, offset: int) -> Fate | None:
        """As readers may see it; None: not committed."""
        if offset >= len(self.fates):
            return None
        commit = self.soon.get(offset)
        if commit is not None:
            return Fate.COMMITTED if commit else Fate.ABORTED
        return self.fates[offset]

    def last_stable(self, high_watermark: int) -> int:
        first = min((offsets[0] for offsets in self.open.values()), default=high_watermark)
        return min(first, high_watermark)


class History:
    """All transactions of a world."""

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}
        self.partitions: dict[TopicPartition, Stability] = {}
        self.inputs: dict[bytes, tuple[TopicPartition, int]] = {}  # by output
        self.copied: dict[tuple[TopicPartition, int], bytes] = {}
        self.offsets: dict[TopicPartition, int] = {}  # committed by the group of copiers
        self._positions: dict[tuple[str, TopicPartition], int] = {}

    # --- clients ---

    def begins(self, key: str, protocol: int) -> Attempt:
        attempt = self.attempts[key] = Attempt(key, protocol)
        return attempt

    def committed(self, attempt: Attempt) -> None:
        """commit_transaction() has returned."""
        self._said(attempt, True)

    def aborted(self, attempt: Attempt) -> None:
        """It was told to abort, or has called for it."""
        self._said(attempt, False)

    def _said(self, attempt: Attempt, commit: bool) -> None:
        if attempt.said is not None and attempt.said != commit:
            raise Violation(f"transaction {attempt.key}: its client was told both")
        attempt.said = commit
        for at, decided in attempt.decided.items():
            if decided != commit:
                raise Violation(
                    f"transaction {attempt.key}: its client was told that it is {_word(commit)},"
                    f" and it is {_word(decided)} in {at}"
                )

    # --- logs ---

    def extended(self, at: TopicPartition, fresh: Iterable[Keyed]) -> None:
        """Records of a partition are committed, in the order of the log."""
        stability = self.partitions.get(at)
        if stability is None:
            stability = self.partitions[at] = Stability()
        for record in fresh:
            if record.ends is not None:
                self._ended(at, stability, record.producer, record.ends)
                stability.fates.append(Fate.MARKER)
            elif record.producer >= 0:
                stability.open.setdefault(record.producer, []).append(len(stability.fates))
                stability.owners[len(stability.fates)] = _owner(at, record)
                stability.fates.append(Fate.OPEN)
            else:
                stability.fates.append(Fate.PLAIN)
            stability_offset = len(stability.fates) - 1
            assert record.offset == stability_offset, (record.offset, stability_offset)

    def _ended(self, at: TopicPartition, stability: Stability, producer: int, commit: bool) -> None:
        offsets = stability.open.pop(producer, [])
        owners = dict.fromkeys(stability.owners[offset] for offset in offsets)
        if len(owners) > 1:
            raise Violation(
                f"{at}: the marker of producer {producer} at offset {len(stability.fates)} ends"
                f" records of transactions {' and '.join(owners)}"
            )
        stability.aborts += not commit
        for offset in offsets:
            if stability.soon.pop(offset, commit) != commit:
                raise Violation(
                    f"{at}: offset {offset} is {_word(commit)}; a leader with an uncommitted marker"
                    f" showed readers that it is {_word(not commit)}"
                )
            stability.fates[offset] = Fate.COMMITTED if commit else Fate.ABORTED
        for key in owners:
            self._decided(self.attempts[key], at, commit)

    def ends_soon(self, at: TopicPartition, producer: int, commit: bool) -> None:
        """A leader shows readers the end of a transaction whose marker is not committed."""
        stability = self.partitions[at]
        for offset in stability.open.get(producer, ()):
            stability.soon.setdefault(offset, commit)

    def _decided(self, attempt: Attempt, at: TopicPartition, commit: bool) -> None:
        for other, decided in attempt.decided.items():
            if decided != commit:
                raise Violation(
                    f"transaction {attempt.key} is {_word(decided)} in {other} and"
                    f" {_word(commit)} in {at}"
                )
        if commit and not attempt.asked_to_commit:
            raise Violation(
                f"transaction {attempt.key} is committed in {at}; its client never asked for it"
            )
        if attempt.said is not None and attempt.said != commit:
            raise Violation(
                f"transaction {attempt.key} is {_word(commit)} in {at}; its client was told that"
                f" it is {_word(attempt.said)}"
            )
        attempt.decided[at] = commit
        if commit and at.topic == OUTPUT:
            self._copied(attempt)
        if commit and at.topic == OFFSETS_TOPIC:
            self.offsets |= attempt.offsets

    def _copied(self, attempt: Attempt) -> None:
        for value in attempt.sent:
            where = self.inputs.get(value)
            if where is None:
                continue
            other = self.copied.setdefault(where, value)
            if other != value:
                raise Violation(
                    f"offset {where[1]} of {where[0]} is copied twice, as {other!r} and {value!r}"
                )

    # --- readers ---

    def was_read(self, reader: str, at: TopicPartition, offset: int, value: bytes) -> None:
        """By one that reads committed records only, from the beginning on."""
        fate = self.partitions[at].fate(offset)
        if fate not in VISIBLE:
            raise Violation(f"{at}: {reader} read {value!r} at offset {offset}, {_which_is(fate)}")
        self.passed(reader, at, self._positions.get((reader, at), 0), offset)
        self._positions[reader, at] = offset + 1

    def passed(self, reader: str, at: TopicPartition, start: int, end: int) -> None:
        """It gets nothing of these: so there is nothing to get."""
        for offset in range(start, end):
            fate = self.partitions[at].fate(offset)
            if fate not in (Fate.MARKER, Fate.ABORTED):
                raise Violation(f"{at}: {reader} left out offset {offset}, {_which_is(fate)}")

    def has_read_all(self, reader: str) -> bool:
        return all(
            not any(
                fate in VISIBLE for fate in stability.fates[self._positions.get((reader, at), 0) :]
            )
            for at, stability in self.partitions.items()
            if at.topic in (INPUT, OUTPUT)
        )

    # --- the end ---

    def is_copied(self) -> bool:
        """Every input has its output."""
        return all(
            fate not in VISIBLE or (at, offset) in self.copied
            for at, stability in self.partitions.items()
            if at.topic == INPUT
            for offset, fate in enumerate(stability.fates)
        )

    def undecided(self) -> str:
        """A transaction that is still open somewhere; empty if there is none."""
        for at, stability in self.partitions.items():
            for producer, offsets in stability.open.items():
                return (
                    f"{at}: transaction {stability.owners[offsets[0]]} of producer {producer}, open"
                    f" since offset {offsets[0]}"
                )
        return ""

    def check(self, copiers: bool) -> None:
        """All is decided, and everywhere alike."""
        counts = Counter(self._owners_of_committed())
        for attempt in self.attempts.values():
            self._check(attempt, counts[attempt.key])
        if copiers:
            self._check_offsets()

    def _owners_of_committed(self) -> Iterable[str]:
        for at, stability in self.partitions.items():
            for offset, key in stability.owners.items():
                if stability.fates[offset] is Fate.COMMITTED and at.topic != OFFSETS_TOPIC:
                    yield key

    def _check(self, attempt: Attempt, count: int) -> None:
        commit = attempt.outcome
        if attempt.said and commit is None and (attempt.sent or attempt.offsets):
            raise Violation(f"transaction {attempt.key} was committed, and nothing of it is there")
        if not commit:
            return
        if count != len(attempt.sent):
            raise Violation(
                f"transaction {attempt.key} is committed with {count} of its {len(attempt.sent)}"
                " records"
            )
        if attempt.offsets and not any(at.topic == OFFSETS_TOPIC for at in attempt.decided):
            raise Violation(f"transaction {attempt.key} is committed without its offsets")

    def _check_offsets(self) -> None:
        """What the group has committed is what was copied."""
        for at, stability in self.partitions.items():
            if at.topic != INPUT:
                continue
            end = self.offsets.get(at, 0)
            for offset, fate in enumerate(stability.fates):
                if fate not in VISIBLE:
                    continue
                if ((at, offset) in self.copied) != (offset < end):
                    what = "copied" if offset >= end else "not copied"
                    raise Violation(
                        f"offset {offset} of {at} is {what}, and group {GROUP} has committed {end}"
                    )


def _owner(at: TopicPartition, record: Keyed) -> str:
    """The key of the attempt that wrote a record; offsets have it as their metadata."""
    if at.topic != OFFSETS_TOPIC:
        assert record.value is not None
        return record.value.decode().rpartition("#")[0]
    assert record.key is not None
    known = decode(record.key, record.value)
    assert isinstance(known, OffsetRecord)
    assert known.value is not None
    return known.value.metadata


def _which_is(fate: Fate | None) -> str:
    return f"which is {'not committed' if fate is None else fate.value}"


def _word(commit: bool) -> str:
    return "committed" if commit else "aborted"
