"""What the runtime of coordinators asks of a shard and of the log under it, and what both say.

In: nothing. Out: protocols, and the values that shards and the runtime exchange.
Not here: how they are used (runtime.py).
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from barnabas.model.errors import Code
from barnabas.wire.codec import ProtocolMessage

R = TypeVar("R")
Encoded = tuple[bytes, bytes | None]
"""Key and value of a record."""


class Now(Struct, frozen=True, gc=False):
    """The two kinds of time: timers go by the one, timestamps in records by the other."""

    ms: int
    wall_ms: int


class ShardReply(NamedTuple):
    """The reply to a request, perhaps one that came long ago."""

    token: object
    response: ProtocolMessage


class TransactionProducer(NamedTuple):
    """In whose transaction records are written; `guard`: of the log, if it wants one."""

    producer_id: int
    epoch: int
    guard: object = None


class TransactionMarker(NamedTuple):
    """The end of a transaction in the log of a shard."""

    producer_id: int
    epoch: int
    commit: bool
    coordinator_epoch: int
    version: int


class Outcome(Struct, Generic[R], frozen=True):
    """What an operation wants written, and who is told once it is.

    `subject`: whom the records are about, should the log refuse them.
    `at_once`: the answers say nothing that a lost write could belie.
    `divisible`: each of the records is right without those behind it, so that more of them than
    a batch may hold can go in several.
    `producer`: the records take effect when a marker commits its transaction.
    `marker`: such a marker, written after the records.
    """

    records: tuple[R, ...] = ()
    answers: tuple[ShardReply, ...] = ()
    subject: str = ""
    at_once: bool = False
    divisible: bool = False
    producer: TransactionProducer | None = None
    marker: TransactionMarker | None = None


class AnyShard(Protocol[R]):
    """State kept in one partition, and the operations on it."""

    def encode(self, records: Sequence[R]) -> list[Encoded]: ...

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """None for a record of a kind that this version does not know."""
        ...

    def loaded(self, now: Now) -> None:
        """All of the log has been replayed: sessions start to count."""
        ...

    def unloaded(self, parked: tuple[ShardReply, ...]) -> tuple[ShardReply, ...]:
        """Another broker goes on, or none: whoever waits is told to look for it. `parked`: what
        would have been answered, had the records behind it been committed."""
        ...

    def refused(self, outcome: Outcome[R], code: Code, now: Now) -> tuple[ShardReply, ...]:
        """The log took none of the records: go back to what has been replayed."""
        ...

    def due(self, now: Now) -> Outcome[R] | None:
        """The effect of one deadline that has passed; None when there is no more."""
        ...

    def next_deadline(self) -> int | None: ...


class Shard(AnyShard[R], Protocol[R]):
    """A shard that need not know where its records are."""

    def replay(self, record: R) -> None: ...


class TransactionalShard(Shard[R], Protocol[R]):
    """A shard that has records of transactions."""

    def replay_pending(self, record: R, producer_id: int) -> None: ...

    def end_transaction(self, producer_id: int, *, commit: bool) -> None: ...


class LogShard(AnyShard[R], Protocol[R]):
    """A shard that knows where its records are, and does something once they are committed."""

    def replay_at(self, record: R, offset: int) -> None: ...

    def committed(self, end: int) -> Sequence[object]:
        """Everything below `end` is committed: the effects that waited for it. Called whenever
        that may have moved, first when all of the log has been replayed."""
        ...


class Journal(Protocol):
    """The log under a shard."""

    @property
    def high_watermark(self) -> int: ...

    def append(self, batch: bytearray, wall_ms: int) -> int:
        """The offset of the last record; a KafkaError when nothing was written."""
        ...

    def append_transactional(self, batch: bytearray, guard: object, wall_ms: int) -> int: ...

    def append_marker(self, marker: TransactionMarker, wall_ms: int) -> int: ...
