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


class _ShardContext(Generic[S]):
    """One shard with its journal."""

    __slots__ = (
        "journal",
        "log_shard",
        "parked",
        "partition",
        "plain_shard",
        "reads",
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
        self.reads: deque[tuple[int, Callable[[bool], None]]] = deque()

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
        self._contexts: dict[int, _ShardContext[S]] = {}
        self._effects: list[tuple[int, object]] = []

    # Coming and going

    def start_loading(self, partition: int, shard: S, journal: Journal) -> None:
        self._contexts[partition] = _ShardContext(partition, shard, journal)

    def load(self, partition: int, batch: Buffer, header: BatchHeader | None = None) -> None:
        """Replay one batch as read from the log; `header` is its own, where it was read already.

        A record that cannot be read raises Corrupt: a coordinator that has lost a commit must
        not answer as if there had been none.
        """
        context = self._contexts[partition]
        decode = context.shard.decode
        plain = None if context.plain_shard is None else context.plain_shard.replay
        header = header or read_header(batch)
        if header.attributes & (CONTROL | TRANSACTIONAL):
            _load_transactional(context, batch, header)
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
                context.replay((known,), record.offset)

    def finish_loading(self, partition: int, now: Now, loaded_to: int = 0) -> None:
        """`loaded_to`: the end of what was replayed, which need not all be committed yet."""
        context = self._contexts[partition]
        context.written_to = max(context.written_to, loaded_to)
        context.shard.loaded(now)
        context.stage = Stage.ACTIVE
        self._release_effects(context)

    def unload(self, partition: int) -> list[ShardReply]:
        """Leadership is lost: waiting requests are answered, and nothing is kept."""
        context = self._contexts.pop(partition, None)
        if context is None:
            return []
        parked = tuple(answer for _, answers in context.parked for answer in answers)
        answers = list(context.shard.unloaded(parked))
        for _, tell in context.reads:
            tell(False)
        return answers

    def partitions(self) -> tuple[int, ...]:
        return tuple(self._contexts)

    def is_loading(self) -> bool:
        return any(context.stage is Stage.LOADING for context in self._contexts.values())

    def is_active(self, partition: int) -> bool:
        context = self._contexts.get(partition)
        return context is not None and context.stage is Stage.ACTIVE

    def shard(self, partition: int) -> S:
        """To look at. COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR when it cannot be asked."""
        return self._context(partition).shard

    def any_shard(self, partition: int) -> S:
        """Also a shard that is loading: for the code that loads it."""
        return self._contexts[partition].shard

    def has(self, partition: int, shard: S) -> bool:
        """Whether this is still the partition's shard."""
        context = self._contexts.get(partition)
        return context is not None and context.shard is shard

    def is_settled(self, partition: int, tell: Callable[[bool], None]) -> bool:
        """Whether the whole state of the shard is committed. If not, `tell` is called later: with
        True when it is, with False if it never will be."""
        context = self._contexts.get(partition)
        if context is None or context.written_to <= context.journal.high_watermark:
            return True
        context.reads.append((context.written_to, tell))
        return False

    def is_committed(self, partition: int) -> bool:
        """Whether the whole state of an active shard is committed."""
        context = self._contexts[partition]
        return context.written_to <= context.journal.high_watermark

    # Work

    def run(
        self, partition: int, operation: Callable[[S], Outcome[R]], now: Now
    ) -> list[ShardReply]:
        """Run an operation; returns the replies that may leave now, to any caller."""
        return self.carry_out(partition, operation(self.shard(partition)), now)

    def carry_out(self, partition: int, outcome: Outcome[R], now: Now) -> list[ShardReply]:
        """Write and replay the outcome of an operation on the partition's shard."""
        return self._carry_out(self._contexts[partition], outcome, now)

    def write(self, partition: int, records: tuple[R, ...], now: Now) -> bool:
        """Write and replay records without a reply, also while loading; False if refused."""
        context = self._contexts[partition]
        try:
            self._write(context, Outcome(records, divisible=True), now)
        except KafkaError:
            return False
        self._release_effects(context)
        return True

    def expire(
        self, now: Now, failed: Callable[[Exception], None] | None = None
    ) -> list[ShardReply]:
        """Run everything that is due. `failed` is called with the error of a shard; the other
        shards continue."""
        answers: list[ShardReply] = []
        for context in tuple(self._contexts.values()):
            if context.stage is not Stage.ACTIVE:
                continue
            deadline = context.shard.next_deadline()
            if deadline is None or deadline > now.ms:
                continue
            try:
                while (outcome := context.shard.due(now)) is not None:
                    answers += self._carry_out(context, outcome, now)
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
                for context in self._contexts.values()
                if context.stage is Stage.ACTIVE
                and (deadline := context.shard.next_deadline()) is not None
            ),
            default=None,
        )

    def watermark_moved(self, partition: int) -> list[ShardReply]:
        """More of the log is committed: the replies that waited for it."""
        context = self._contexts.get(partition)
        answers: list[ShardReply] = []
        if context is not None:
            self._release_effects(context)
            committed = context.journal.high_watermark
            while context.parked and context.parked[0][0] <= committed:
                answers += context.parked.popleft()[1]
            while context.reads and context.reads[0][0] <= committed:
                context.reads.popleft()[1](True)
        return answers

    def take_effects(self) -> list[tuple[int, object]]:
        """The effects of committed records, each with the partition of its shard."""
        effects, self._effects = self._effects, []
        return effects

    def _release_effects(self, context: _ShardContext[S]) -> None:
        if context.log_shard is not None and context.stage is Stage.ACTIVE:
            for effect in context.log_shard.committed(context.journal.high_watermark):
                self._effects.append((context.partition, effect))

    def _context(self, partition: int) -> _ShardContext[S]:
        context = self._contexts.get(partition)
        if context is None:
            raise Retriable(Code.NOT_COORDINATOR, f"shard {partition} is not on this broker")
        if context.stage is Stage.LOADING:
            raise Retriable(Code.COORDINATOR_LOAD_IN_PROGRESS, f"shard {partition} is loading")
        return context

    def _carry_out(
        self, context: _ShardContext[S], outcome: Outcome[R], now: Now
    ) -> list[ShardReply]:
        shard = context.shard
        try:
            self._write(context, outcome, now)
        except KafkaError as error:
            return list(shard.refused(outcome, error.code, now))
        self._release_effects(context)
        if not outcome.answers:
            return []
        if outcome.at_once or context.written_to <= context.journal.high_watermark:
            return list(outcome.answers)
        context.parked.append((context.written_to, outcome.answers))
        return []

    def _write(self, context: _ShardContext[S], outcome: Outcome[R], now: Now) -> None:
        records = outcome.records
        if outcome.producer is not None:
            self._write_pending(context, outcome, outcome.producer, now)
        elif records:
            encoded = context.shard.encode(records)
            if len(records) == 1 or not outcome.divisible:
                batch = batch_of(encoded, now.wall_ms)
                context.written_to = context.journal.append(batch, now.wall_ms) + 1
                context.replay(records, context.written_to - len(records))
            else:
                for start, end in _portions(encoded):
                    batch = batch_of(encoded[start:end], now.wall_ms)
                    context.written_to = context.journal.append(batch, now.wall_ms) + 1
                    context.replay(records[start:end], context.written_to - (end - start))
        marker = outcome.marker
        if marker is not None:
            context.written_to = context.journal.append_marker(marker, now.wall_ms) + 1
            context.transactional.end_transaction(marker.producer_id, commit=marker.commit)

    def _write_pending(
        self,
        context: _ShardContext[S],
        outcome: Outcome[R],
        producer: TransactionProducer,
        now: Now,
    ) -> None:
        if not outcome.records:
            return
        encoded = context.shard.encode(outcome.records)
        batch = batch_of(encoded, now.wall_ms, producer.producer_id, producer.epoch)
        last = context.journal.append_transactional(batch, producer.guard, now.wall_ms)
        context.written_to = last + 1
        for record in outcome.records:
            context.transactional.replay_pending(record, producer.producer_id)


def _load_transactional(context: _ShardContext[Any], batch: Buffer, header: BatchHeader) -> None:
    """A batch of a transaction, or the marker that ends one."""
    shard = context.transactional
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
