"""A transaction coordinator over a log in memory, and requests to it in a few letters."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.runtime import Now, Runtime, ShardReply
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.group_commit import NO_BATCH, AskedGroup
from barnabas.coordinators.transactions.limits import TransactionLimits
from barnabas.coordinators.transactions.markers import MarkersDue, MarkersWritten
from barnabas.coordinators.transactions.shard import TransactionShard
from barnabas.coordinators.transactions.statistics import TransactionStatistics
from barnabas.coordinators.transactions.transaction import Transaction
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.batch import HEADER, read_header
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

SHARD = 7
WALL_MS = 1_700_000_000_000
ID = "tx"
CLIENT = "producer-1"
NOBODY = Identity()

Named = dict[str, Iterable[int]]


class OffsetJournal:
    """Batches with their offsets. `lagging`: what is written is not committed until told so."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.high_watermark = 0
        self.lagging = False
        self.error: KafkaError | None = None

    def append(self, batch: bytearray, wall_ms: int) -> int:
        if self.error is not None:
            raise self.error
        header = read_header(batch)
        HEADER.pack_into(batch, 0, self.end, *header[1:])
        self.batches.append(bytes(batch))
        self.end += header.record_count
        if not self.lagging:
            self.high_watermark = self.end
        return self.end - 1

    def append_transactional(self, batch: bytearray, guard: object, wall_ms: int) -> int:
        raise AssertionError("the state of transactions is not written in transactions")

    def append_marker(self, marker: object, wall_ms: int) -> int:
        raise AssertionError("the state of transactions is not written in transactions")

    def possible_ends(self) -> list[int]:
        """How far the log may be committed, or may be left after a failover."""
        ends = [read_header(batch).last_offset + 1 for batch in self.batches]
        return [self.high_watermark, *(end for end in ends if end > self.high_watermark)]

    def cut(self, end: int) -> None:
        """A new leader has the batches up to there, and none that follow."""
        self.batches = [b for b in self.batches if read_header(b).last_offset < end]
        self.end = read_header(self.batches[-1]).last_offset + 1 if self.batches else 0


class Ids:
    """Producer ids from 1000 on."""

    def __init__(self) -> None:
        self._next = count(1000)
        self.is_empty = False

    def take(self) -> int | None:
        return None if self.is_empty else next(self._next)


@dataclass
class Call:
    """A request and, once there is one, its answer."""

    response: Any = None

    @property
    def waits(self) -> bool:
        return self.response is None

    @property
    def code(self) -> Code:
        assert self.response is not None, "it still waits"
        return Code.of(self.response.error_code)

    @property
    def identity(self) -> Identity:
        return Identity(self.response.producer_id, self.response.producer_epoch)


@dataclass
class World:
    """Requests are in the newest version of transaction version 1 unless told otherwise."""

    limits: TransactionLimits = field(default_factory=TransactionLimits)
    journal: OffsetJournal = field(default_factory=OffsetJournal)
    ids: Ids = field(default_factory=Ids)
    statistics: TransactionStatistics = field(default_factory=TransactionStatistics)
    ms: int = 0
    wall_off_ms: int = 0

    def __post_init__(self) -> None:
        self.epoch = 0
        self.markers: list[MarkersDue] = []
        self.start()

    @property
    def now(self) -> Now:
        return Now(self.ms, WALL_MS + self.ms + self.wall_off_ms)

    @property
    def shard(self) -> TransactionShard:
        return self.runtime.shard(SHARD)

    def transaction(self, id_: str = ID) -> Transaction:
        return self.shard.table.transactions[id_]

    def state(self, id_: str = ID) -> str:
        return self.transaction(id_).state.title

    def start(self) -> None:
        """A broker begins to lead this journal."""
        self.epoch += 1
        self.runtime: Runtime[TransactionShard] = Runtime()
        self.limits.room.used = 0
        shard = TransactionShard(self.limits, self.ids, self.epoch, self.statistics)
        self.runtime.start_loading(SHARD, shard, self.journal)
        for batch in self.journal.batches:
            self.runtime.load(SHARD, batch)
        self.markers.clear()
        self.runtime.finish_loading(SHARD, self.now, self.journal.end)
        self._take_effects()

    def deliver(self, answers: list[ShardReply]) -> None:
        for token, response in answers:
            assert isinstance(token, Call)
            assert token.waits, "answered twice"
            token.response = response
        self._take_effects()

    def _take_effects(self) -> None:
        for partition, effect in self.runtime.take_effects():
            assert partition == SHARD
            assert isinstance(effect, MarkersDue)
            self.markers.append(effect)

    def commit_log(self, end: int | None = None) -> None:
        """The followers have it."""
        self.journal.high_watermark = self.journal.end if end is None else end
        self.deliver(self.runtime.watermark_moved(SHARD))

    def advance(self, ms: int) -> None:
        """Let time pass, deadline by deadline."""
        end = self.ms + ms
        while (deadline := self.runtime.next_deadline()) is not None and deadline <= end:
            self.ms = max(self.ms, deadline)
            self.deliver(self.runtime.expire(self.now))
        self.ms = end

    def _run(self, verb: Any, version: int, client: str = CLIENT) -> Call:
        call = Call()
        caller = Caller(call, version, client, "/10.0.0.1")
        self.deliver(self.runtime.run(SHARD, lambda shard: verb(shard, caller), self.now))
        return call

    def init(
        self,
        id_: str = ID,
        producer: Identity = NOBODY,
        *,
        timeout: int = 60_000,
        version: int = 5,
        client: str = CLIENT,
    ) -> Call:
        request = InitProducerIdRequest(
            transactional_id=id_,
            transaction_timeout_ms=timeout,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
        )
        return self._run(
            lambda shard, caller: shard.init_producer_id(request, caller, self.now),
            version,
            client,
        )

    def new(self, id_: str = ID, **options: Any) -> Identity:
        return self.init(id_, **options).identity

    def add(
        self, producer: Identity, partitions: Named | None = None, id_: str = ID, version: int = 3
    ) -> Call:
        named = as_partitions(partitions or {"t": [0]})
        return self._run(
            lambda shard, caller: shard.add_partitions(id_, producer, named, caller, self.now),
            version,
        )

    def join(self, producer: Identity, partitions: Named | None = None) -> Call:
        """As a leader on the coordinator's broker asks."""
        named = as_partitions(partitions or {"t": [0]})
        return self._run(
            lambda shard, caller: shard.join_partitions(ID, producer, named, caller, self.now), 5
        )

    def add_code(self, producer: Identity, partitions: Named | None = None, **rest: Any) -> Code:
        return only_code(self.add(producer, partitions, **rest))

    def verify(
        self, producer: Identity, partitions: Named | None = None, id_: str = ID
    ) -> dict[tuple[str, int], Code]:
        named = as_partitions(partitions or {"t": [0]})
        call = self._run(
            lambda shard, caller: shard.verify_partitions(id_, producer, named, caller), 4
        )
        return codes(call)

    def add_offsets(self, producer: Identity, id_: str = ID, version: int = 3) -> Call:
        request = AddOffsetsToTxnRequest(
            transactional_id=id_,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id="g",
        )
        named = as_partitions({"__consumer_offsets": [3]})
        return self._run(
            lambda shard, caller: shard.add_offsets(request, named, caller, self.now), version
        )

    def end(
        self, producer: Identity, *, commit: bool = True, id_: str = ID, version: int = 4
    ) -> Call:
        request = EndTxnRequest(
            transactional_id=id_,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        return self._run(lambda shard, caller: shard.end_txn(request, caller, self.now), version)

    def end_group(
        self,
        transactions: dict[str, Identity],
        batch: int = NO_BATCH,
        identity: str = "",
        *,
        group: str = "g",
        commit: bool = True,
        note: str = "",
    ) -> Call:
        asked = AskedGroup(group, commit, batch, identity, note, transactions)
        return self._run(lambda shard, caller: shard.end_group(asked, caller, self.now), 0)

    def written(self, due: MarkersDue | None = None, only: int | None = None) -> None:
        """The leaders have written the markers: all, or that many partitions."""
        due = due or self.markers[-1]
        partitions = [(topic, i) for topic, found in due.partitions.items() for i in sorted(found)]
        said = MarkersWritten(
            due.transactional_id, due.producer_id, due.producer_epoch, partitions[:only]
        )
        self.deliver(
            self.runtime.run(SHARD, lambda shard: shard.markers_written([said], self.now), self.now)
        )


def as_partitions(named: Named) -> dict[str, frozenset[int]]:
    return {topic: frozenset(indexes) for topic, indexes in named.items()}


def codes(call: Call) -> dict[tuple[str, int], Code]:
    topics = call.response.results_by_topic_v3_and_below or [
        topic for result in call.response.results_by_transaction for topic in result.topic_results
    ]
    return {
        (topic.name, each.partition_index): Code.of(each.partition_error_code)
        for topic in topics
        for each in topic.results_by_partition
    }


def only_code(call: Call) -> Code:
    (code,) = set(codes(call).values())
    return code
