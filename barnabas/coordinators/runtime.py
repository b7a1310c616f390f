"""Runs coordinator shards, each over one partition of a topic that holds its state.

In: operations to run on a shard, batches read back from its log, watermarks, time.
Out: replies whose records are committed, effects of records that are committed, and the next
deadline.
Always: records change a shard only through `replay`, both when they are written and after a
restart; a reply leaves when every record it may depend on is committed; no operation runs on a
shard that is loading.
Not here: what a shard and its log are (ports.py), what shards decide (groups/, transactions/),
how logs are read and timers wait (broker/).
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar, cast

from barnabas.coordinators.ports import (
    AnyShard,
    Encoded,
    Journal,
    LogShard,
    Now,
    Outcome,
    R,
    Shard,
    ShardReply,
    TransactionalShard,
    TransactionMarker,
    TransactionProducer,
)
from barnabas.model.errors import Code, Corrupt, KafkaError, Retriable
from barnabas.model.ports import Buffer
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader, read_header
from barnabas.wire.records import batch_of, decode_batch

__all__ = [
    "Encoded",
    "Journal",
    "Now",
    "Outcome",
    "Runtime",
    "ShardReply",
    "Stage",
    "TransactionMarker",
    "TransactionProducer",
]

BATCH_BYTES = 256 * 1024  # of keys and values, where records may go in several batches
BATCH_RECORDS = 1_000

S = TypeVar("S", bound=AnyShard)  # type: ignore[type-arg]


class Stage(Enum):
    LOADING = "loading"
    ACTIVE = "active"


class _Seat(Generic[S]):
    """One shard with its journal."""

    __slots__ = (
        "journal",
        "log_shard",
        "lookers",
        "parked",
        "partition",
        "plain_shard",
        "shard",
        "stage",
        "written_to",
    )

    def __init__(self, partition: int, shard: S, journal: Journal) -> None:
        self.partition = partition
        self.shard = shard
        # The same shard, as the one kind or the other.
        self.log_shard: LogShard[Any] | None = None
        self.plain_shard: Shard[Any] | None = None
        if hasattr(shard, "replay_at"):
            self.log_shard = cast("LogShard[Any]", shard)
        else:
            self.plain_shard = cast("Shard[Any]", shard)
        self.journal = journal
        self.stage = Stage.LOADING
        self.written_to = 0  # everything below it has been replayed
        self.parked: deque[tuple[int, tuple[ShardReply, ...]]] = deque()
        self.lookers: deque[tuple[int, Callable[[bool], None]]] = deque()

    @property
    def transactional(self) -> TransactionalShard[Any]:
        if not hasattr(self.shard, "replay_pending"):
            raise Corrupt(f"the log of shard {self.partition} has a batch of a transaction")
        return cast("TransactionalShard[Any]", self.shard)

    def replay(self, records: Sequence[Any], base_offset: int) -> None:
        if self.plain_shard is not None:
            for record in records:
                self.plain_shard.replay(record)
        elif self.log_shard is not None:
            for offset, record in enumerate(records, base_offset):
                self.log_shard.replay_at(record, offset)


class Runtime(Generic[S]):
    """All shards of one kind on this broker, by partition."""

    def __init__(self) -> None:
        self._seats: dict[int, _Seat[S]] = {}
        self._effects: list[tuple[int, object]] = []

    # Coming and going

    def start_loading(self, partition: int, shard: S, journal: Journal) -> None:
        self._seats[partition] = _Seat(partition, shard, journal)

    def load(self, partition: int, batch: Buffer, header: BatchHeader | None = None) -> None:
        """Replay one batch as read from the log; `header` is its own, where it was read already.

        A record that cannot be read raises Corrupt: a coordinator that has lost a commit must
        not answer as if there had been none.
        """
        seat = self._seats[partition]
        decode = seat.shard.decode
        plain = None if seat.plain_shard is None else seat.plain_shard.replay
        header = header or read_header(batch)
        if header.attributes & (CONTROL | TRANSACTIONAL):
            _load_transactional(seat, batch, header)
            return
        for record in decode_batch(batch, header=header):
            if record.key is None:
                raise Corrupt(f"record {record.offset} of the coordinator's log has no key")
            known = decode(record.key, record.value)
            if known is None:
                continue
            if plain is not None:
                plain(known)
            else:
                seat.replay((known,), record.offset)

    def finish_loading(self, partition: int, now: Now, loaded_to: int = 0) -> None:
        """`loaded_to`: the end of what was replayed, which need not all be committed yet."""
        seat = self._seats[partition]
        seat.written_to = max(seat.written_to, loaded_to)
        seat.shard.loaded(now)
        seat.stage = Stage.ACTIVE
        self._release_effects(seat)

    def unload(self, partition: int) -> list[ShardReply]:
        """Leadership is lost: waiting requests are answered, and nothing is kept."""
        seat = self._seats.pop(partition, None)
        if seat is None:
            return []
        parked = tuple(answer for _, answers in seat.parked for answer in answers)
        answers = list(seat.shard.unloaded(parked))
        for _, tell in seat.lookers:
            tell(False)
        return answers

    def partitions(self) -> tuple[int, ...]:
        return tuple(self._seats)

    def is_loading(self) -> bool:
        return any(seat.stage is Stage.LOADING for seat in self._seats.values())

    def is_active(self, partition: int) -> bool:
        seat = self._seats.get(partition)
        return seat is not None and seat.stage is Stage.ACTIVE

    def shard(self, partition: int) -> S:
        """To look at. COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR when it cannot be asked."""
        return self._seat(partition).shard

    def any_shard(self, partition: int) -> S:
        """Also a shard that is loading: for the code that loads it."""
        return self._seats[partition].shard

    def has(self, partition: int, shard: S) -> bool:
        """Whether this is still the partition's shard."""
        seat = self._seats.get(partition)
        return seat is not None and seat.shard is shard

    def is_settled(self, partition: int, tell: Callable[[bool], None]) -> bool:
        """Whether the whole state of the shard is committed. If not, `tell` is called later: with
        True when it is, with False if it never will be."""
        seat = self._seats.get(partition)
        if seat is None or seat.written_to <= seat.journal.high_watermark:
            return True
        seat.lookers.append((seat.written_to, tell))
        return False

    # Work

    def run(
        self, partition: int, operation: Callable[[S], Outcome[R]], now: Now
    ) -> list[ShardReply]:
        """Run an operation; returns the replies that may leave now, to any caller."""
        return self.carry_out(partition, operation(self.shard(partition)), now)

    def carry_out(self, partition: int, outcome: Outcome[R], now: Now) -> list[ShardReply]:
        """Write and replay the outcome of an operation on the partition's shard."""
        return self._carry_out(self._seats[partition], outcome, now)

    def write(self, partition: int, records: tuple[R, ...], now: Now) -> bool:
        """Write and replay records without a reply, also while loading; False if refused."""
        seat = self._seats[partition]
        try:
            self._write(seat, Outcome(records, divisible=True), now)
        except KafkaError:
            return False
        self._release_effects(seat)
        return True

    def expire(
        self, now: Now, failed: Callable[[Exception], None] | None = None
    ) -> list[ShardReply]:
        """Run everything that is due. `failed` is called with the error of a shard; the other
        shards continue."""
        answers: list[ShardReply] = []
        for seat in tuple(self._seats.values()):
            if seat.stage is not Stage.ACTIVE:
                continue
            deadline = seat.shard.next_deadline()
            if deadline is None or deadline > now.ms:
                continue
            try:
                while (outcome := seat.shard.due(now)) is not None:
                    answers += self._carry_out(seat, outcome, now)
            except Exception as error:
                if failed is None:
                    raise
                failed(error)
        return answers

    def next_deadline(self) -> int | None:
        """Never later than the next deadline of any shard."""
        return min(
            (
                deadline
                for seat in self._seats.values()
                if seat.stage is Stage.ACTIVE
                and (deadline := seat.shard.next_deadline()) is not None
            ),
            default=None,
        )

    def watermark_moved(self, partition: int) -> list[ShardReply]:
        """More of the log is committed: the replies that waited for it."""
        seat = self._seats.get(partition)
        answers: list[ShardReply] = []
        if seat is not None:
            self._release_effects(seat)
            committed = seat.journal.high_watermark
            while seat.parked and seat.parked[0][0] <= committed:
                answers += seat.parked.popleft()[1]
            while seat.lookers and seat.lookers[0][0] <= committed:
                seat.lookers.popleft()[1](True)
        return answers

    def take_effects(self) -> list[tuple[int, object]]:
        """The effects of committed records, each with the partition of its shard."""
        effects, self._effects = self._effects, []
        return effects

    def _release_effects(self, seat: _Seat[S]) -> None:
        if seat.log_shard is not None and seat.stage is Stage.ACTIVE:
            for effect in seat.log_shard.committed(seat.journal.high_watermark):
                self._effects.append((seat.partition, effect))

    def _seat(self, partition: int) -> _Seat[S]:
        seat = self._seats.get(partition)
        if seat is None:
            raise Retriable(Code.NOT_COORDINATOR, f"shard {partition} is not on this broker")
        if seat.stage is Stage.LOADING:
            raise Retriable(Code.COORDINATOR_LOAD_IN_PROGRESS, f"shard {partition} is loading")
        return seat

    def _carry_out(self, seat: _Seat[S], outcome: Outcome[R], now: Now) -> list[ShardReply]:
        shard = seat.shard
        try:
            self._write(seat, outcome, now)
        except KafkaError as error:
            return list(shard.refused(outcome, error.code, now))
        self._release_effects(seat)
        if not outcome.answers:
            return []
        if outcome.at_once or seat.written_to <= seat.journal.high_watermark:
            return list(outcome.answers)
        seat.parked.append((seat.written_to, outcome.answers))
        return []

    def _write(self, seat: _Seat[S], outcome: Outcome[R], now: Now) -> None:
        records = outcome.records
        if outcome.producer is not None:
            self._write_pending(seat, outcome, outcome.producer, now)
        elif records:
            encoded = seat.shard.encode(records)
            for start, end in _portions(encoded) if outcome.divisible else ((0, len(records)),):
                batch = batch_of(encoded[start:end], now.wall_ms)
                seat.written_to = seat.journal.append(batch, now.wall_ms) + 1
                seat.replay(records[start:end], seat.written_to - (end - start))
        marker = outcome.marker
        if marker is not None:
            seat.written_to = seat.journal.append_marker(marker, now.wall_ms) + 1
            seat.transactional.end_transaction(marker.producer_id, commit=marker.commit)

    def _write_pending(
        self, seat: _Seat[S], outcome: Outcome[R], producer: TransactionProducer, now: Now
    ) -> None:
        if not outcome.records:
            return
        encoded = seat.shard.encode(outcome.records)
        batch = batch_of(encoded, now.wall_ms, producer.producer_id, producer.epoch)
        last = seat.journal.append_transactional(batch, producer.guard, now.wall_ms)
        seat.written_to = last + 1
        for record in outcome.records:
            seat.transactional.replay_pending(record, producer.producer_id)


def _load_transactional(seat: _Seat[Any], batch: Buffer, header: BatchHeader) -> None:
    """A batch of a transaction, or the marker that ends one."""
    shard = seat.transactional
    if header.attributes & CONTROL:
        from barnabas.wire.control_records import read_marker

        marker = read_marker(batch, header)
        if marker is not None:
            shard.end_transaction(header.producer_id, commit=marker.commit)
        return
    for record in decode_batch(batch, header=header):
        if record.key is None:
            raise Corrupt(f"record {record.offset} of the coordinator's log has no key")
        known = shard.decode(record.key, record.value)
        if known is not None:
            shard.replay_pending(known, header.producer_id)


def _portions(encoded: list[Encoded]) -> Iterator[tuple[int, int]]:
    """The ranges of records that fit into one batch each."""
    start = size = 0
    for end, (key, value) in enumerate(encoded):
        more = len(key) + len(value or b"")
        if end > start and (size + more > BATCH_BYTES or end - start >= BATCH_RECORDS):
            yield start, end
            start, size = end, 0
        size += more
    yield start, len(encoded)
