"""The interfaces of a shard and of its log, as the runtime of coordinators uses them.

Protocols, and the values that shards and the runtime exchange.
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
    """The two kinds of time: monotonic for timers, wall clock for timestamps in records."""

    ms: int
    wall_ms: int


class ShardReply(NamedTuple):
    """The reply to a request, which may have arrived long ago."""

    token: object
    response: ProtocolMessage


class TransactionProducer(NamedTuple):
    """The producer whose transaction the records belong to; `guard`: the log's, if it needs one."""

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
    """The records that an operation writes, and the replies that follow once they are written.

    `subject`: what the records are about, in case the log refuses them.
    `at_once`: the replies may leave before the records are committed: they stay true if those are
    lost.
    `divisible`: each record is valid without the later ones, so they may be written in several
    batches.
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
        """The whole log has been replayed: session timeouts start now."""
        ...

    def unloaded(self, parked: tuple[ShardReply, ...]) -> tuple[ShardReply, ...]:
        """This broker is no longer the coordinator: the replies to waiting requests. `parked`: the
        replies that waited for their records to be committed."""
        ...

    def refused(self, outcome: Outcome[R], code: Code, now: Now) -> tuple[ShardReply, ...]:
        """The log refused the records: return to the replayed state."""
        ...

    def due(self, now: Now) -> Outcome[R] | None:
        """The outcome of one deadline that has passed; None if there is no other."""
        ...

    def next_deadline(self) -> int | None: ...


class Shard(AnyShard[R], Protocol[R]):
    """A shard that does not need the offsets of its records."""

    def replay(self, record: R) -> None: ...


class TransactionalShard(Shard[R], Protocol[R]):
    """A shard that has records of transactions."""

    def replay_pending(self, record: R, producer_id: int) -> None: ...

    def end_transaction(self, producer_id: int, *, commit: bool) -> None: ...


class LogShard(AnyShard[R], Protocol[R]):
    """A shard that gets the offsets of its records, and acts once they are committed."""

    def replay_at(self, record: R, offset: int) -> None: ...

    def committed(self, end: int) -> Sequence[object]:
        """Everything below `end` is committed: the effects that waited for it. Called whenever the
        high watermark may have moved, first when the whole log has been replayed."""
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
