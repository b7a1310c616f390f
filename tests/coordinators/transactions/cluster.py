"""A coordinator that fails over, leaders of data partitions, and a network between them that loses,
delays and repeats.
"""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.limits import IdRoom, TransactionLimits
from barnabas.coordinators.transactions.markers import MarkerQueue, MarkersWritten
from barnabas.coordinators.transactions.records import decode
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.model.errors import Code
from barnabas.wire.batch import read_header
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
from barnabas.wire.records import decode_batch
from tests.coordinators.transactions.partitions import PartitionModel
from tests.coordinators.transactions.producers import (
    Add,
    End,
    Init,
    Produce,
    TransactionalProducer,
)
from tests.coordinators.transactions.test_markers import answer as all_written
from tests.coordinators.transactions.world import SHARD, Ids, OffsetJournal, World

PARTITIONS = 3
BROKERS = 2
TIMEOUT_MS = 8_000
TOPIC = "t"


class Heard(NamedTuple):
    """What a producer is told."""

    code: Code
    producer_id: int = -1
    producer_epoch: int = -1


class Reply:
    """Who waits for the coordinator's answer."""

    def __init__(self, told: Callable[[Any], None]) -> None:
        self.told = told


class CrashingWorld(World):
    """The coordinator's partition of the log, mirrored elsewhere byte by byte."""

    def deliver(self, answers: list[Any]) -> None:
        self._take_effects()
        for token, response in answers:
            token.told(response)


class SimulatedCluster:
    """`quiet`: no faults any more."""

    def __init__(self, random: Random, version: int) -> None:
        self.random = random
        limits = TransactionLimits(
            version=version, timeout_check_ms=1_000, timeout_ms_max=60_000, room=IdRoom()
        )
        self.world = CrashingWorld(limits, OffsetJournal(), Ids())
        self.partitions = [PartitionModel(number) for number in range(PARTITIONS)]
        self.leaders = {number: number % BROKERS for number in range(PARTITIONS)}
        self.markers = MarkerQueue(self)
        self.network: list[Callable[[], None]] = []
        self.late: list[Callable[[], None]] = []  # held up somewhere; they come when nobody waits
        self.loss = random.choice((0.0, 0.05, 0.2))
        self.lateness = random.choice((0.0, 0.02, 0.1))
        self.copies = random.choice((0.0, 0.5))  # of markers
        self.quiet = False

    def leader_of(self, topic: str, partition: int) -> int | None:
        return self.leaders[partition]

    # The network

    def send(self, arrive: Callable[[], None]) -> None:
        if self.quiet or self.random.random() >= self.loss:
            self.on_its_way(arrive)

    def on_its_way(self, arrive: Callable[[], None]) -> None:
        is_late = not self.quiet and self.random.random() < self.lateness
        (self.late if is_late else self.network).append(arrive)

    def deliver_one(self) -> None:
        if self.network:
            self.network.pop(self.random.randrange(len(self.network)))()

    # What producers ask

    def handle(
        self, producer: TransactionalProducer, request: Any, told: Callable[[Heard], None]
    ) -> None:
        match request:
            case Init(known):
                self.init(producer.id, known, told)
            case Add(identity, partition):
                self.add(producer.id, identity, partition, 3, told)
            case End(identity, commit):
                self.end(producer, identity, commit, told)
            case Produce():
                self.produce(producer, request, told)

    # The coordinator

    def coordinator(self, verb: Any, version: int, told: Callable[[Any], None]) -> None:
        world = self.world
        if not world.runtime.is_active(SHARD):
            return
        caller = Caller(Reply(told), version, "c", "/h")
        world.deliver(world.runtime.run(SHARD, lambda s: verb(s, caller, world.now), world.now))
        self.pump()

    def init(self, id_: str, known: Identity, told: Callable[[Heard], None]) -> None:
        request = InitProducerIdRequest(
            transactional_id=id_,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=known.producer_id,
            producer_epoch=known.epoch,
        )
        self.coordinator(
            lambda shard, caller, now: shard.init_producer_id(request, caller, now),
            5,
            lambda said: told(
                Heard(Code.of(said.error_code), said.producer_id, said.producer_epoch)
            ),
        )

    def add(
        self,
        id_: str,
        identity: Identity,
        partition: int,
        version: int,
        told: Callable[[Heard], None],
    ) -> None:
        named = {TOPIC: frozenset((partition,))}

        def said(response: Any) -> None:
            topics = response.results_by_topic_v3_and_below or (
                response.results_by_transaction[0].topic_results
            )
            told(Heard(Code.of(topics[0].results_by_partition[0].partition_error_code)))

        self.coordinator(
            lambda shard, caller, now: shard.add_partitions(id_, identity, named, caller, now),
            version,
            said,
        )

    def verify(
        self, id_: str, identity: Identity, partition: int, told: Callable[[Heard], None]
    ) -> None:
        named = {TOPIC: frozenset((partition,))}
        self.coordinator(
            lambda shard, caller, _: shard.verify_partitions(id_, identity, named, caller),
            4,
            lambda said: told(
                Heard(
                    Code.of(
                        said.results_by_transaction[0]
                        .topic_results[0]
                        .results_by_partition[0]
                        .partition_error_code
                    )
                )
            ),
        )

    def end(
        self,
        producer: TransactionalProducer,
        identity: Identity,
        commit: bool,
        told: Callable[[Heard], None],
    ) -> None:
        request = EndTxnRequest(
            transactional_id=producer.id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        )
        self.coordinator(
            lambda shard, caller, now: shard.end_txn(request, caller, now),
            5 if producer.has_version_2 else 4,
            lambda said: told(
                Heard(Code.of(said.error_code), said.producer_id, said.producer_epoch)
            ),
        )

    def pump(self) -> None:
        """Markers that may leave, leave."""
        world = self.world
        while world.markers:
            self.markers.add(SHARD, world.markers.pop(0))
        requests, done = self.markers.requests(world.ms)
        assert not done
        for broker, request in requests:
            self.send_markers(self.markers, broker, request)

    def send_markers(
        self, queue: MarkerQueue, broker: int, request: WriteTxnMarkersRequest
    ) -> None:
        """A lost request or answer is noticed: the connection breaks."""

        def answered(response: Any) -> None:
            if queue is not self.markers:
                return  # its broker is gone
            done = queue.answered(broker, response, self.world.ms)
            self.markers_written([each for written in done.values() for each in written])

        def arrive() -> None:
            response = self.write_markers(broker, request)
            lost = not self.quiet and self.random.random() < self.loss
            self.network.append(lambda: answered(None if lost else response))

        if not self.quiet and self.random.random() < self.loss:
            self.network.append(lambda: answered(None))
        elif not self.quiet and self.random.random() < self.lateness:  # it will be sent again
            self.late.append(lambda: self.write_late_markers(broker, request))
            self.network.append(lambda: answered(None))
        else:
            self.network.append(arrive)
            if not self.quiet and self.random.random() < self.copies:
                self.late.append(lambda: self.write_late_markers(broker, request))

    def is_decided(self, marker: WritableTxnMarker) -> bool:
        """Can no failover of the coordinator take the decision back?"""
        journal = self.world.journal
        wanted = TransactionState.PREPARE_ABORT
        if marker.transaction_result:
            wanted = TransactionState.PREPARE_COMMIT
        identity = (marker.producer_id, marker.producer_epoch)
        for batch in reversed(journal.batches):
            if read_header(batch).last_offset >= journal.high_watermark:
                continue
            for record in decode_batch(batch):
                assert record.key is not None
                known = decode(record.key, record.value)
                found = None if known is None else known.transaction
                if (
                    found is not None
                    and found.state is wanted
                    and (found.producer_id, found.producer_epoch) == identity
                ):
                    return True
        return False

    def write_late_markers(self, broker: int, request: WriteTxnMarkersRequest) -> None:
        """Copies of markers that were sent again since.

        In version 1 nothing tells such a copy from the marker of the next transaction (KIP-1228):
        only what a newer coordinator has seen to is promised there.
        """
        markers = []
        for marker in request.markers:
            known = [
                self.partitions[index].producers.get(marker.producer_id)
                for topic in marker.topics
                for index in topic.partition_indexes
            ]
            newer = all(k and k.coordinator_epoch > marker.coordinator_epoch for k in known)
            if marker.transaction_version >= 2 or newer:
                markers.append(marker)
        self.write_markers(broker, WriteTxnMarkersRequest(markers=markers))

    def markers_written(self, written: list[MarkersWritten]) -> None:
        if written and self.world.runtime.is_active(SHARD):
            self.coordinator(
                lambda shard, _, now: shard.markers_written(written, now), 0, lambda _: None
            )
        else:
            self.pump()

    def write_markers(self, broker: int, request: WriteTxnMarkersRequest) -> Any:
        codes: dict[tuple[str, int], Code] = {}
        by_producer = []
        for marker in request.markers:
            assert self.is_decided(marker), f"{marker} without a committed decision"
            for topic in marker.topics:
                for index in topic.partition_indexes:
                    code = Code.NOT_LEADER_OR_FOLLOWER
                    if self.leaders[index] == broker:
                        code = self.partitions[index].end(
                            marker.producer_id,
                            marker.producer_epoch,
                            marker.coordinator_epoch,
                            marker.transaction_result,
                            marker.transaction_version,
                        )
                    codes[topic.name, index] = code
            single = WriteTxnMarkersRequest(markers=[marker])
            by_producer += all_written(single, codes).markers
            codes = {}
        return type(all_written(request))(markers=by_producer)

    # Leaders of data partitions

    def produce(
        self, producer: TransactionalProducer, request: Produce, told: Callable[[Heard], None]
    ) -> None:
        partition = self.partitions[request.partition]
        producer_id, epoch = request.producer
        guard = partition.before_append(
            producer_id, epoch, request.sequence, has_version_2=producer.has_version_2
        )
        if isinstance(guard, Code):
            told(Heard(guard))
            return
        term = partition.term

        def verified(heard: Heard) -> None:
            if partition.term != term:
                told(Heard(Code.NOT_LEADER_OR_FOLLOWER))
            elif heard.code is Code.NONE:
                told(
                    Heard(
                        partition.append(
                            producer_id, epoch, request.sequence, request.record, guard
                        )
                    )
                )
            else:
                told(Heard(to_produce(heard.code)))

        if guard is None:
            verified(Heard(Code.NONE))
            return

        def back(heard: Heard) -> None:
            self.send(lambda: verified(heard))

        ask = self.add if producer.has_version_2 else None
        if ask is not None:
            self.send(lambda: self.add(producer.id, request.producer, partition.number, 5, back))
        else:
            self.send(lambda: self.verify(producer.id, request.producer, partition.number, back))

    # Time and failovers

    def advance(self, ms: int) -> None:
        world = self.world
        end = world.ms + ms
        while world.ms < end:
            deadline = self.markers.next_deadline()
            world.advance(
                max(0, min(end, end if deadline is None else max(deadline, world.ms)) - world.ms)
            )
            self.pump()
            if deadline is not None and deadline <= world.ms and world.ms < end:
                world.advance(1)

    def crash(self) -> None:
        """Another broker leads the coordinator's partition, with or without the tail of its log."""
        journal = self.world.journal
        gone = self.world.runtime.unload(SHARD)
        if self.random.random() < 0.5:
            self.world.deliver(gone)
        journal.cut(self.random.choice(journal.possible_ends()))
        self.markers = MarkerQueue(self)
        journal.error = None
        self.world.start()
        self.pump()


def to_produce(code: Code) -> Code:
    """As a leader translates what the coordinator said."""
    return {
        Code.PRODUCER_FENCED: Code.INVALID_PRODUCER_EPOCH,
        Code.TRANSACTION_ABORTABLE: Code.INVALID_TXN_STATE,
        Code.CONCURRENT_TRANSACTIONS: Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_COORDINATOR: Code.NOT_ENOUGH_REPLICAS,
        Code.COORDINATOR_NOT_AVAILABLE: Code.NOT_ENOUGH_REPLICAS,
        Code.COORDINATOR_LOAD_IN_PROGRESS: Code.NOT_ENOUGH_REPLICAS,
    }.get(code, code)
