"""A coordinator and partitions that lose, repeat and delay requests, and a producer against them.

In: a seed. Out: what the producer was told of each transaction, and what a read_committed reader
sees. The brokers here keep Kafka's rules for epochs, sequence numbers and the end of a transaction,
for both protocols; markers are written at once. A request that was lost may arrive later, also in
another transaction: its answer reaches nobody.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from random import Random
from typing import Any

from barnabas.client.blocking.net import run
from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.outbox import Outbox, Outgoing
from barnabas.client.producer.settings import ProducerSettings
from barnabas.client.producer.transacting import Transacting
from barnabas.client.producer.transaction_states import State
from barnabas.client.producer.transactions import Transactions
from barnabas.model.errors import Abortable, Code, KafkaError, Retriable
from barnabas.wire.batch import read_header
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import PartitionProduceResponse
from barnabas.wire.records import decode_batch

TOPIC = "t"
PARTITIONS = 2
PID = 7
LOST = Retriable(Code.NETWORK_EXCEPTION, "the connection broke")


class Log:
    """One partition: records and markers, in order."""

    def __init__(self, coordinator: "Coordinator", number: int) -> None:
        self._coordinator = coordinator
        self._number = number
        self.entries: list[bytes | bool] = []  # values, and markers: whether it was a commit
        self._epoch = -1
        self._next = 0
        self._open = False
        self._recent: list[tuple[int, int]] = []

    def append(self, data: bytes, protocol: int) -> int:
        header = read_header(data)
        epoch, first = header.producer_epoch, header.base_sequence
        if (epoch, first) in self._recent:
            return Code.NONE
        if epoch < self._epoch:
            return Code.INVALID_PRODUCER_EPOCH
        begins = not self._open or epoch > self._epoch
        if begins and (code := self._coordinator.has(self._number, epoch, add=protocol == 2)):
            return code
        if first != (self._next if epoch == self._epoch else 0):
            return Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        self._epoch, self._next = epoch, first + header.record_count
        self._recent.append((epoch, first))
        self._open = True
        self.entries += [record.value or b"" for record in decode_batch(data)]
        return Code.NONE

    def mark(self, epoch: int, *, committed: bool) -> None:
        if epoch > self._epoch:
            self._epoch, self._next = epoch, 0
        self._open = False
        self.entries.append(committed)

    def committed(self) -> list[bytes]:
        found: list[bytes] = []
        pending: list[bytes] = []
        for entry in self.entries:
            if not isinstance(entry, bool):
                pending.append(entry)
                continue
            found += pending if entry else []
            pending = []
        return found


class Coordinator:
    """Of one transactional id. States: empty, ongoing, or how the last transaction ended."""

    def __init__(self) -> None:
        self.epoch = self._last = -1
        self.state = "empty"
        self._partitions: set[int] = set()
        self.logs = [Log(self, number) for number in range(PARTITIONS)]

    def has(self, number: int, epoch: int, *, add: bool) -> int:
        """What a leader asks before it writes the first batch of a transaction."""
        if epoch != self.epoch:
            return Code.INVALID_PRODUCER_EPOCH
        if add:
            self.state = "ongoing"
            self._partitions.add(number)
            return Code.NONE
        there = self.state == "ongoing" and number in self._partitions
        return Code.NONE if there else Code.INVALID_TXN_STATE

    def initialize(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        given = request.producer_epoch
        if given >= 0 and given not in (self.epoch, self._last):
            return InitProducerIdResponse(error_code=Code.PRODUCER_FENCED, producer_epoch=-1)
        if self.state == "ongoing":
            self.time_out()
            return InitProducerIdResponse(
                error_code=Code.CONCURRENT_TRANSACTIONS, producer_epoch=-1
            )
        if given < 0 or given == self.epoch:
            self._last, self.epoch = given, self.epoch + 1
        self.state = "empty"
        return InitProducerIdResponse(error_code=0, producer_id=PID, producer_epoch=self.epoch)

    def add(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        good = request.v3_and_below_producer_epoch == self.epoch
        results = []
        for topic in request.v3_and_below_topics:
            for number in topic.partitions:
                if good:
                    self.state = "ongoing"
                    self._partitions.add(number)
                results.append(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=number,
                        partition_error_code=0 if good else Code.PRODUCER_FENCED,
                    )
                )
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(name=TOPIC, results_by_partition=results)
            ]
        )

    def end(self, request: EndTxnRequest, protocol: int) -> EndTxnResponse:
        wanted = "committed" if request.committed else "aborted"
        bumps = protocol == 2
        again = bumps and request.producer_epoch + 1 == self.epoch
        code: int = Code.NONE
        if request.producer_epoch != self.epoch and not again:
            code = Code.PRODUCER_FENCED
        elif self.state == "ongoing":
            if again:
                code = Code.PRODUCER_FENCED
            else:
                self._complete(wanted, self.epoch + bumps)
                self._last, self.epoch = self.epoch, self.epoch + bumps
        elif again or not bumps:
            code = Code.NONE if self.state == wanted else Code.INVALID_TXN_STATE
        elif request.committed:
            code = Code.INVALID_TXN_STATE
        else:
            self._last, self.epoch, self.state = self.epoch, self.epoch + 1, "aborted"
        return EndTxnResponse(error_code=code, producer_id=PID, producer_epoch=self.epoch)

    def _complete(self, state: str, epoch: int) -> None:
        for number in self._partitions:
            self.logs[number].mark(epoch, committed=state == "committed")
        self._partitions.clear()
        self.state = state

    def time_out(self) -> None:
        """Abort what is open; the producer may go on with another epoch."""
        if self.state == "ongoing":
            self._last, self.epoch = self.epoch, self.epoch + 1
            self._complete("aborted", self.epoch)


class Brokers:
    """A cluster and a connection to the coordinator, as `Transacting` sees them."""

    address = "the coordinator"
    timeout_ms = 1_000
    reached = True

    def __init__(self, random: Random, protocol: int, fault: float) -> None:
        self._random = random
        self.protocol = protocol
        self.fault = fault
        self.coordinator_shard = Coordinator()
        self._late: list[Callable[[], object]] = []
        self.now = 0
        self.net = self

    def now_ms(self) -> int:
        return self.now

    async def sleep(self, ms: int) -> None:
        self.now += ms

    def check_owner(self) -> None: ...

    def waits_ms(self) -> Iterator[int]:
        while True:
            yield 10

    async def coordinator(self, key: str, *, kind: int = 0, apart: str = "") -> "Brokers":
        return self

    def forget_coordinator(self, key: str, *, kind: int = 0) -> None: ...

    def drop_closed(self) -> None: ...

    async def refresh(self) -> None: ...

    def feature(self, name: str) -> int:
        return self.protocol

    def version_of(self, api_key: int, version_max: int | None = None) -> int:
        return 5

    async def call(
        self, request: Any, answer: Any, *, timeout_ms: int, version_max: int | None = None
    ) -> Any:
        shard = self.coordinator_shard
        protocol = 1 if version_max is not None else 2
        handle: dict[type, Callable[[], Any]] = {
            InitProducerIdRequest: lambda: shard.initialize(request),
            AddPartitionsToTxnRequest: lambda: shard.add(request),
            EndTxnRequest: lambda: shard.end(request, protocol),
        }
        # One that takes the id over would fence every other one, this producer too.
        late = not isinstance(request, InitProducerIdRequest)
        return self.through(handle[type(request)], late=late)

    def through(self, handle: Callable[[], Any], *, late: bool = True) -> Any:
        """A request on its way: it may be lost, arrive late, or its answer be lost."""
        if self._late and self._random.random() < 0.2:
            self._late.pop(self._random.randrange(len(self._late)))()
        chance = self._random.random()
        if chance < self.fault:
            if late and self._random.random() < 0.5:
                self._late.append(handle)
            raise LOST
        answer = handle()
        if chance < 2 * self.fault:
            raise LOST
        return answer


class History:
    """One run: transactions of some records each, ended as chance has it."""

    def __init__(self, seed: int, protocol: int, *, timeouts: bool = False) -> None:
        self.random = Random(seed)
        self._timeouts = timeouts
        self.brokers = Brokers(self.random, protocol, fault=0.12)
        self.accumulator = Accumulator(
            batch_size_max=self.random.choice((80, 200, 1_000)),
            buffer_size_max=1 << 30,
            record_size_max=1 << 20,
            clock=lambda: self.brokers.now / 1000,
            wall=lambda: self.brokers.now / 1000,
            chance=self.random.random,
            wake=lambda: None,
        )
        self.machine = Transactions("id", 60_000)
        rules = ProducerSettings(
            in_flight_max=self.random.choice((1, 5)),
            backoff_ms=10,
            backoff_ms_max=50,
            transactional_id="id",
            block_ms_max=self.random.choice((15, 200)),
        )
        self.outbox = Outbox(self.accumulator, rules, self.random.random, self.machine)
        cluster: Any = self.brokers
        self.flows = Transacting(cluster, self.machine, self.outbox, nullcontext(), self.settle)
        self.accumulator.topic_known(TOPIC, dict.fromkeys(range(PARTITIONS), 0))
        self.values: list[set[bytes]] = []
        self.committed: list[set[bytes]] = []
        self.aborted: list[set[bytes]] = []
        self.number = 0

    async def settle(self, timeout_ms: int) -> bool:
        until = self.brokers.now + timeout_ms
        while self.accumulator.used or self.machine.adding:
            if self.brokers.now >= until:
                return False
            self.pump()
            self.brokers.now += 5
        return True

    def pump(self) -> None:
        if self.machine.adding:
            try:
                run(self.flows.add_partitions())
            except KafkaError:
                pass
        for outgoing in self.outbox.poll(self.brokers.now, lambda node: True):
            try:
                answers = self.brokers.through(self._produce(outgoing))
            except Retriable as problem:
                self.outbox.unanswered(outgoing, problem, self.brokers.now)
            else:
                self.outbox.answered(outgoing, answers, self.brokers.now)

    def _produce(self, outgoing: Outgoing) -> Callable[[], Any]:
        protocol = self.machine.protocol
        sent = [
            (batch.queue.partition, bytes(batch.data or b""))
            for batch in outgoing.batches
            if batch.queue is not None
        ]

        def handle() -> dict[tuple[str, int], PartitionProduceResponse]:
            logs = self.brokers.coordinator_shard.logs
            return {
                (TOPIC, number): PartitionProduceResponse(
                    index=number, error_code=logs[number].append(data, protocol), base_offset=0
                )
                for number, data in sent
            }

        return handle

    def again(self, flow: Callable[[], Any]) -> None:
        """A call that ran out of time is repeated; sooner or later nothing is lost any more."""
        fault = self.brokers.fault
        for attempt in range(100):
            self.brokers.fault = fault if attempt < 5 else 0
            try:
                run(flow())
            except Retriable:
                continue
            finally:
                self.brokers.fault = fault
            return
        raise AssertionError("a call without faults does not end")

    def transaction(self) -> None:
        self.again(self.flows.begin)
        values: set[bytes] = set()
        try:
            for _ in range(self.random.randrange(6)):
                value = b"%d" % self.number
                self.number += 1
                values.add(value)
                partition = self.random.randrange(PARTITIONS)
                self.accumulator.add(TOPIC, value, None, (), partition, None, None)
                if self.random.random() < 0.5:
                    self.pump()
                if self._timeouts and self.random.random() < 0.1:
                    self.brokers.coordinator_shard.time_out()
                if self.machine.state is not State.IN_TRANSACTION:
                    break
            if self.random.random() < 0.3:
                raise Abortable(Code.TRANSACTION_ABORTABLE, "the user aborts")
            self.again(self.flows.commit)
        except Abortable:
            self.again(self.flows.abort)
            self.aborted.append(values)
        else:
            self.committed.append(values)

    def run(self, transactions: int) -> None:
        self.again(self.flows.initialize)
        for _ in range(transactions):
            self.transaction()

    def seen(self) -> list[bytes]:
        return [value for log in self.brokers.coordinator_shard.logs for value in log.committed()]
