"""Decides which records of one holding partition are moved, where to, and when.

In: entries in the order of their offsets, results of transactions, time (ms since 1970). Out:
transactions to write, when to read no further, what may be deleted.
Always: no record is delivered before it is due; due records of a target go in the order (due,
offset); one transaction at a time; `low` of a transaction is not above an undecided record. A
record leaves the schedule only by a transaction that was committed. A target that cannot be
written at the moment holds up its own records only; a record that is refused becomes a dead letter.
The schedule can be lost at any moment: the ledger and the holding topic give it back.
Not here: headers (delayed_record.py), the ledger (delay_ledger.py), writing (move_writer.py).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from typing import NamedTuple

from barnabas.client.delay.delay_ledger import DelayOutcome, MovedOffsets
from barnabas.client.delay.delayed_record import (
    Cancellation,
    DelayedRecord,
    HoldingEntry,
    UnusableRecord,
)

PENDING_MAX = 1_000_000
MOVES_MAX = 500  # of one transaction
SIZE_MAX = 4 * 1024 * 1024  # of one transaction, unless its first record is larger
BACKOFF_MS = 500
BACKOFF_MS_MAX = 60_000
DELETE_EVERY_MS = 60_000
_AT_ONCE = -1  # before all times
_DOUBLINGS_MAX = 20


class PlannedMove(NamedTuple):
    """A record and its way out. `topic`: empty for a record that was cancelled."""

    due: int
    offset: int
    topic: str
    size: int
    outcome: DelayOutcome = DelayOutcome.DELIVERED
    cause: str = ""  # of a dead letter
    without_value: bool = False  # a dead letter that was too large


class MoveProblem(Enum):
    """Why a transaction could not be committed."""

    PASSING = "passing"  # the topic cannot be written at the moment
    TOPIC = "topic"  # the topic takes no record of ours
    RECORD = "record"  # the topic does not take this record
    BATCH = "batch"  # the topic does not take this record, or another one beside it


class MoveFailure(NamedTuple):
    """Of one record in a transaction."""

    problem: MoveProblem
    cause: str


@dataclass(frozen=True, slots=True)
class WriteMoves:
    """Write these in one transaction, with a ledger record that has `low`."""

    number: int
    moves: tuple[PlannedMove, ...]
    low: int


@dataclass(frozen=True, slots=True)
class DeleteBefore:
    """No record before this offset is needed."""

    offset: int


DelayEffect = WriteMoves | DeleteBefore


@dataclass(slots=True)
class _Hold:
    """Records whose topic cannot be written until then."""

    until: int
    moves: list[PlannedMove] = field(default_factory=list)


class DelaySchedule:
    """Of one holding partition. `end`: up to there it is read before the first record is moved."""

    def __init__(
        self,
        moved: MovedOffsets,
        end: int,
        dead_letters: str,
        *,
        pending_max: int = PENDING_MAX,
        moves_max: int = MOVES_MAX,
    ) -> None:
        self.position = moved.low
        self._moved = moved
        self._end = end
        self._dead_letters = dead_letters
        self._pending_max = pending_max
        self._moves_max = moves_max
        self._pending: dict[int, PlannedMove] = {}
        self._heap: list[PlannedMove] = []  # also moves that have been replaced
        self._offsets: deque[int] = deque()  # rising; also of records that have been moved
        self._holds: dict[str, _Hold] = {}
        self._failures: dict[str, int] = {}  # in a row, by topic; "" for the transaction itself
        self._suspects: set[int] = set()  # they go alone, to learn which one is refused
        self._in_flight: WriteMoves | None = None
        self._number = 0
        self._retry_at = 0
        self._low = self._deleted_to = moved.low
        self._delete_at = 0

    # --- reading ---

    def read(self, entries: Iterable[HoldingEntry], position: int) -> None:
        """The next entries. `position`: the offset after everything that was read."""
        for entry in entries:
            if entry.offset < self.position or entry.offset in self._moved:
                continue
            if isinstance(entry, Cancellation):
                self._cancel(entry.cancelled)
            elif isinstance(entry, UnusableRecord):
                self._add(self._letter(entry.offset, entry.size, entry.cause))
            else:
                self._add(_delivery(entry))
        self.position = max(self.position, position)
        if self.position >= self._moved.end:
            self._moved = MovedOffsets()

    @property
    def full(self) -> bool:
        """Read no further until some are moved."""
        return len(self._pending) >= self._pending_max

    @property
    def loaded(self) -> bool:
        return self.position >= self._end

    @property
    def waiting(self) -> int:
        """How many records have not been moved yet."""
        return len(self._pending)

    @property
    def held(self) -> int:
        """Of them, those whose topic cannot be written at the moment."""
        return sum(len(hold.moves) for hold in list(self._holds.values()))

    def next_due(self) -> int | None:
        """The time of the next record; None: nothing waits for its time."""
        heap = self._heap[:1]
        return heap[0].due if heap and heap[0].due != _AT_ONCE else None

    def pending(self) -> list[PlannedMove]:
        """In the order in which they are due."""
        return sorted(self._pending.values())

    def __contains__(self, offset: int) -> bool:
        return offset in self._pending

    def _add(self, move: PlannedMove) -> None:
        self._offsets.append(move.offset)
        self._put(move)

    def _put(self, move: PlannedMove) -> None:
        """Replaces what was planned for the record."""
        self._pending[move.offset] = move
        heappush(self._heap, move)

    def _cancel(self, offset: int) -> None:
        """A record that is in flight is cancelled if its transaction is aborted."""
        move = self._pending.get(offset)
        if move is not None and move.outcome is DelayOutcome.DELIVERED:
            self._put(PlannedMove(_AT_ONCE, offset, "", 0, DelayOutcome.CANCELLED))

    def _letter(self, offset: int, size: int, cause: str, cut: bool = False) -> PlannedMove:
        outcome = DelayOutcome.DEAD_LETTER
        return PlannedMove(_AT_ONCE, offset, self._dead_letters, size, outcome, cause, cut)

    # --- moving ---

    def advance(self, now: int) -> list[DelayEffect]:
        """What is to be done now."""
        effects: list[DelayEffect] = []
        if self._low > self._deleted_to and now >= self._delete_at:
            self._deleted_to, self._delete_at = self._low, now + DELETE_EVERY_MS
            effects.append(DeleteBefore(self._low))
        if self._in_flight is None and now >= self._retry_at and (self.loaded or self.full):
            self._release(now)
            if moves := self._chosen(now):
                self._number += 1
                low = self._low_after({move.offset for move in moves})
                self._in_flight = WriteMoves(self._number, tuple(moves), low)
                effects.append(self._in_flight)
        return effects

    def next_deadline(self) -> int | None:
        """When `advance` is to be called again; None: after the next event."""
        times = [self._delete_at] if self._low > self._deleted_to else []
        if self._in_flight is None and (self.loaded or self.full):
            self._drop_replaced()
            due = [hold.until for hold in self._holds.values()]
            due += [self._heap[0].due] if self._heap else []
            if due:
                times.append(max(min(due), self._retry_at))
        return min(times, default=None)

    def committed(self, number: int) -> None:
        flight = self._landed(number)
        for move in flight.moves:
            del self._pending[move.offset]
            self._suspects.discard(move.offset)
            self._failures.pop(move.topic, None)
        self._failures.pop("", None)
        self._low = flight.low

    def aborted(self, number: int, failures: Mapping[int, MoveFailure], now: int) -> None:
        """`failures` by offset; if there are none, the transaction itself failed."""
        flight = self._landed(number)
        if not failures:
            self._retry_at = now + self._backoff_ms("")
        refused = {
            move.topic: failures[move.offset].cause
            for move in flight.moves
            if move.offset in failures and failures[move.offset].problem is MoveProblem.TOPIC
        }
        for move in flight.moves:
            failure = failures.get(move.offset)
            if move.topic in refused:
                failure = MoveFailure(MoveProblem.TOPIC, refused[move.topic])
            if self._pending[move.offset] is not move:
                continue  # cancelled since: that move is in the heap already
            self._again(move, failure, now, alone=len(flight.moves) == 1)

    def _again(
        self, move: PlannedMove, failure: MoveFailure | None, now: int, *, alone: bool
    ) -> None:
        if failure is None:
            heappush(self._heap, move)
            return
        problem, cause = failure
        if problem is MoveProblem.BATCH and not alone:
            self._suspects.add(move.offset)
            heappush(self._heap, move)
        elif problem is MoveProblem.PASSING:
            self._hold(move, now)
        elif move.outcome is DelayOutcome.DELIVERED:
            self._put(self._letter(move.offset, move.size, cause))
        elif move.outcome is DelayOutcome.DEAD_LETTER and not (
            move.without_value or problem is MoveProblem.TOPIC
        ):
            self._put(self._letter(move.offset, 0, move.cause, cut=True))
        else:
            self._hold(move, now)  # nobody may lose it: until the topic takes it

    def _landed(self, number: int) -> WriteMoves:
        flight = self._in_flight
        assert flight is not None
        assert flight.number == number
        self._in_flight = None
        return flight

    def _chosen(self, now: int) -> list[PlannedMove]:
        moves: list[PlannedMove] = []
        size = 0
        while len(moves) < self._moves_max:
            self._drop_replaced()
            if not self._heap or self._heap[0].due > now:
                break
            move = self._heap[0]
            if move.topic in self._holds:
                self._holds[move.topic].moves.append(heappop(self._heap))
                continue
            if moves and (move.offset in self._suspects or size + move.size > SIZE_MAX):
                break
            size += move.size
            moves.append(heappop(self._heap))
            if move.offset in self._suspects:
                break
        return moves

    def _drop_replaced(self) -> None:
        heap, pending = self._heap, self._pending
        while heap and pending.get(heap[0].offset) is not heap[0]:
            heappop(heap)

    def _low_after(self, moved: set[int]) -> int:
        """The lowest offset that is undecided after these are moved."""
        offsets, pending = self._offsets, self._pending
        while offsets and offsets[0] not in pending:
            offsets.popleft()
        for offset in offsets:
            if offset in pending and offset not in moved:
                return offset
        return self.position

    # --- topics that cannot be written at the moment ---

    def _hold(self, move: PlannedMove, now: int) -> None:
        hold = self._holds.get(move.topic)
        if hold is None:
            hold = self._holds[move.topic] = _Hold(now + self._backoff_ms(move.topic))
        hold.moves.append(move)

    def _release(self, now: int) -> None:
        for topic, hold in list(self._holds.items()):
            if hold.until <= now:
                del self._holds[topic]
                for move in hold.moves:
                    heappush(self._heap, move)

    def _backoff_ms(self, topic: str) -> int:
        count = self._failures[topic] = self._failures.get(topic, 0) + 1
        return int(min(BACKOFF_MS << min(count - 1, _DOUBLINGS_MAX), BACKOFF_MS_MAX))


def _delivery(record: DelayedRecord) -> PlannedMove:
    return PlannedMove(record.due, record.offset, record.target, record.size)
