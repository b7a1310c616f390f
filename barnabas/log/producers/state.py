"""Decides whether a producer's batch is new, a repeat, or out of order.

In: the producer fields of batch headers. Out: the batch it repeats, nothing, or an error.
Always: what is known here follows from the log alone (and from expiry), so a replay
of the headers rebuilds it.
Always: states that were captured for a snapshot do not change: a producer that writes again gets a
new object first.
Always: a producer with a transaction that is open here is never forgotten.
Not here: snapshot files (snapshots.py), whether a transactional batch or a marker is
accepted (transactions/append.py).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.model.errors import Code, Fenced, InvalidRequest
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader

if TYPE_CHECKING:
    from barnabas.log.transactions.open_transactions import OpenTransactions

PRODUCERS_MAX = 10_000  # of one partition: beyond it, those that wrote longest ago are forgotten
FORGOTTEN_AT_ONCE = PRODUCERS_MAX // 10
WINDOW = 5  # batches a producer may have in flight, hence may repeat
NO_EPOCH = -1
NO_SEQUENCE = -1
SEQUENCE_MASK = 0x7FFF_FFFF


class Remembered(NamedTuple):
    """One batch of a producer, enough to answer its repeat."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class EndedTransaction(NamedTuple):
    """A transaction with records in this log, from the first to its marker.

    `stable_offset`: where the first other transaction begins that is open, or behind the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


class ProducerState:
    """What one producer wrote last."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_sequence",
        "last_timestamp",
        "owner",
        "producer_id",
        "transaction_start",
    )

    def __init__(self, producer_id: int, epoch: int, owner: object = None) -> None:
        self.owner = owner  # of ProducerStates; another one's must not be changed
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_sequence = NO_SEQUENCE
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.transaction_start = -1
        self.batches: tuple[Remembered, ...] = ()  # the last ones; a deque would take 600 bytes

    def copy(self, owner: object) -> "ProducerState":
        copy = ProducerState(self.producer_id, self.epoch, owner)
        copy.last_sequence = self.last_sequence
        copy.last_timestamp = self.last_timestamp
        copy.coordinator_epoch = self.coordinator_epoch
        copy.transaction_start = self.transaction_start
        copy.batches = self.batches
        return copy

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def repeated(self, epoch: int, base_sequence: int, record_count: int) -> Remembered | None:
        """The batch with the same sequences, if it is one of the last."""
        if epoch != self.epoch:
            return None
        last_sequence = (base_sequence + record_count - 1) & SEQUENCE_MASK
        for batch in self.batches:
            if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerState):
            return NotImplemented
        names = (name for name in self.__slots__ if name != "owner")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"ProducerState({self.producer_id}, epoch {self.epoch}, "
            f"last sequence {self.last_sequence}, {len(self.batches)} batches)"
        )


class ProducerStates:
    """Every producer that the log remembers, by id."""

    __slots__ = ("_owner", "entries", "transactions")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerState] = {}
        self.transactions: OpenTransactions | None = None  # made with the first one
        self._owner: object = None  # renewed by each capture

    @classmethod
    def of(cls, captured: Mapping[int, ProducerState]) -> "ProducerStates":
        """The producers that `capture` returned, to go on with."""
        states = cls()
        states.entries = dict(captured)
        states._owner = object()
        states.find_open()
        return states

    def find_open(self) -> None:
        """The states were read from a snapshot: so are the transactions that were open then."""
        found = [
            (state.producer_id, state.transaction_start)
            for state in self.entries.values()
            if state.transaction_start >= 0
        ]
        if found:
            self.transactions = _open_transactions(found)

    def capture(self) -> Mapping[int, ProducerState]:
        """All producers as they are now: references only, as this runs on the event loop."""
        self._owner = object()
        return self.entries.copy()

    def __len__(self) -> int:
        return len(self.entries)

    def describe(self) -> list[ProducerState]:
        return list(self.entries.values())

    def check(
        self, producer_id: int, epoch: int, base_sequence: int, record_count: int
    ) -> Remembered | None:
        """The batch that this one repeats, or None if it is the next; an error otherwise."""
        state = self.entries.get(producer_id)
        if state is None:
            # Unknown, perhaps forgotten by retention: Kafka starts with whatever comes.
            return None
        if epoch == state.epoch:
            expected = (state.last_sequence + 1) & SEQUENCE_MASK
            if base_sequence == expected:
                return None
            repeat = state.repeated(epoch, base_sequence, record_count)
            if repeat is not None:
                return repeat
            raise InvalidRequest(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} epoch {epoch}: got sequence {base_sequence}, "
                f"expected {expected}",
            )
        if epoch < state.epoch:
            raise Fenced(
                Code.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id}: got epoch {epoch}, the current epoch is {state.epoch}",
            )
        if base_sequence != 0:
            raise InvalidRequest(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id}: epoch {epoch} is new and must start with sequence 0, "
                f"{base_sequence} came",
            )
        return None

    def record(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp: int,
    ) -> None:
        """The batch is in the log."""
        state = self.entries.get(producer_id)
        if state is None:
            if len(self.entries) >= PRODUCERS_MAX:
                self.expire_oldest(FORGOTTEN_AT_ONCE)
            state = self.entries[producer_id] = ProducerState(producer_id, epoch, self._owner)
        elif state.owner is not self._owner:
            state = self.entries[producer_id] = state.copy(self._owner)
        if state.epoch != epoch:
            state.epoch = epoch
            state.batches = ()
        last_sequence = (base_sequence + last_offset - base_offset) & SEQUENCE_MASK
        state.last_sequence = last_sequence
        state.last_timestamp = timestamp
        batch = Remembered(base_sequence, last_sequence, base_offset, last_offset, timestamp)
        state.batches = (*state.batches[1 - WINDOW :], batch)

    def begin_transaction(
        self, producer_id: int, epoch: int, first_offset: int, timestamp: int
    ) -> None:
        """A transactional batch is in the log, perhaps not the first of its transaction."""
        state = self._writable(producer_id, epoch)
        state.last_timestamp = timestamp
        if state.transaction_start < 0:
            state.transaction_start = first_offset
            if self.transactions is None:
                self.transactions = _open_transactions()
            self.transactions.begin(producer_id, first_offset)

    def end_transaction(
        self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, timestamp: int
    ) -> EndedTransaction | None:
        """A marker is in the log. None if it ends nothing that has records here."""
        state = self._writable(producer_id, epoch)
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp = timestamp
        state.transaction_start = -1
        if self.transactions is None:
            return None
        first_offset = self.transactions.end(producer_id, offset)
        if first_offset is None:
            return None
        open_ = self.transactions.first_open()
        stable_offset = offset + 1 if open_ is None else open_
        return EndedTransaction(producer_id, first_offset, offset, stable_offset)

    def see_epoch(self, producer_id: int, epoch: int, timestamp: int) -> None:
        """A producer has this epoch, whatever it wrote."""
        self._writable(producer_id, epoch).last_timestamp = timestamp

    def move_transaction(self, producer_id: int, first_offset: int) -> None:
        """An open transaction begins elsewhere in the log; -1: nothing of it is there."""
        assert self.transactions is not None
        state = self._writable(producer_id, self.entries[producer_id].epoch)
        state.transaction_start = first_offset
        self.transactions.move(producer_id, first_offset)

    def _writable(self, producer_id: int, epoch: int) -> ProducerState:
        """The state of a producer, at this epoch and not captured by a snapshot."""
        state = self.entries.get(producer_id)
        if state is None:
            if len(self.entries) >= PRODUCERS_MAX:
                self.expire_oldest(FORGOTTEN_AT_ONCE)
            state = self.entries[producer_id] = ProducerState(producer_id, epoch, self._owner)
        elif state.owner is not self._owner:
            state = self.entries[producer_id] = state.copy(self._owner)
        if state.epoch != epoch:
            state.epoch = epoch
            state.batches = ()
            state.last_sequence = NO_SEQUENCE
        return state

    def replay(self, header: BatchHeader) -> None:
        """A batch found in the log; it was checked when it was written. Not for markers."""
        if header.producer_id < 0 or header.attributes & CONTROL:
            return
        if header.base_sequence >= 0:
            self.record(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
            )
        if header.attributes & TRANSACTIONAL:
            self.begin_transaction(
                header.producer_id,
                header.producer_epoch,
                header.base_offset,
                header.max_timestamp,
            )

    def expire(self, wall_ms: int, expiration_ms: int) -> list[int]:
        """Forget producers silent for that long, unless a transaction of theirs is open."""
        silent = [
            producer_id
            for producer_id, state in self.entries.items()
            if state.transaction_start < 0 and wall_ms - state.last_timestamp >= expiration_ms
        ]
        for producer_id in silent:
            del self.entries[producer_id]
        return silent

    def expire_oldest(self, count: int) -> None:
        """Forget so many of those that wrote longest ago, unless a transaction of theirs is open.

        One that writes again is taken as a new one, as in Kafka.
        """
        idle = [
            (state.last_offset, producer_id)
            for producer_id, state in self.entries.items()
            if state.transaction_start < 0
        ]
        idle.sort()
        for _, producer_id in idle[:count]:
            del self.entries[producer_id]


def _open_transactions(found: list[tuple[int, int]] | None = None) -> "OpenTransactions":
    """Imported when there is one: most logs have none."""
    from barnabas.log.transactions.open_transactions import OpenTransactions

    return OpenTransactions(found or ())
