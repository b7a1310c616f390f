"""Many transactional producers on the wire, with little work per request.

In: the address of one broker, a topic, how many. Out: seconds.
Always: every reply is decoded and must be without error. One connection per producer, one request
at a time, as real producers have; the steps of a transaction follow the protocol of `PROTOCOLS`.
"""

import select
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from barnabas.wire.batch import rewrite_producer
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from bench.herd import COMING_UP, FIND, TIMEOUT_S, Line

TRANSACTION = 1  # the type of coordinator
INIT, ADD = 4, 3  # versions
TRANSACTION_TIMEOUT_MS = 60_000
# CONCURRENT_TRANSACTIONS while markers of the transaction before are being written; a leader that
# cannot verify a partition for that reason says NOT_ENOUGH_REPLICAS.
NOT_ENDED_YET, NOT_VERIFIED = 51, 19
RETRIED = (NOT_ENDED_YET, NOT_VERIFIED)
BACKOFF_S = 0.02  # as Java's producer waits then
PARTITIONS = 10
Step = tuple[ProtocolMessage, int]


@dataclass(frozen=True)
class Protocol:
    """Versions of the requests: up to 11 and 4 partitions are added first, and the epoch stays."""

    produce: int
    end: int


PROTOCOLS = {"protocol 1": Protocol(11, 4), "protocol 2": Protocol(12, 5)}


class _Producer:
    """One transactional producer; `steps` yields its requests and receives the replies."""

    def __init__(
        self, servers: str, name: str, topic: str, partition: int, protocol: Protocol
    ) -> None:
        self.line = Line(servers)
        self._name, self._topic, self._partition = name, topic, partition
        self._protocol = protocol
        self._sequence = 0
        self._batch = bytearray(
            encode_batch([Record(0, int(time.time() * 1e3), None, bytes(100))], transactional=True)
        )
        self.steps: Iterator[Step] = iter(())
        self._reply: ProtocolMessage | None = None
        self._pending: Step | None = None
        self.due = 0.0  # of its next request

    def initialise(self) -> None:
        find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[self._name])
        init = InitProducerIdRequest(
            transactional_id=self._name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )

        def found(answer: ProtocolMessage) -> int:
            assert isinstance(answer, FindCoordinatorResponse)
            return answer.coordinators[0].error_code

        def initialised(answer: ProtocolMessage) -> int:
            assert isinstance(answer, InitProducerIdResponse)
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            return answer.error_code

        _call_until_ready(self.line, find, FIND, found)
        _call_until_ready(self.line, init, INIT, initialised)

    def transactions(self, left: Callable[[], bool]) -> Iterator[Step]:
        """The requests of one transaction after the other, until none is left to begin."""
        protocol = self._protocol
        while left():
            if protocol.produce < 12:
                yield from self._retried(self._add_request, ADD, _added)
            yield from self._retried(self._produce_request, protocol.produce, _produced)
            yield from self._retried(self._end_request, protocol.end, self._ended)

    def _retried(
        self,
        request: Callable[[], ProtocolMessage],
        version: int,
        code_of: Callable[[ProtocolMessage], int],
    ) -> Iterator[Step]:
        while True:
            yield request(), version
            assert self._reply is not None
            code = code_of(self._reply)
            if not code:
                return
            if code not in RETRIED:
                raise RuntimeError(f"{self._name}: error {code} in {self._reply}")
            self.due = time.perf_counter() + BACKOFF_S

    def go_on(self) -> bool:
        """Chooses the next request, which is `due` at once or later; false after the last one."""
        self.due = 0.0
        self._pending = next(self.steps, None)
        return self._pending is not None

    def send(self) -> None:
        assert self._pending is not None
        self.line.send(*self._pending)

    def receive(self) -> None:
        assert self._pending is not None
        request, version = self._pending
        self._reply = self.line.receive(type(request), version)

    def call(self) -> ProtocolMessage:
        self.send()
        self.receive()
        assert self._reply is not None
        return self._reply

    def _add_request(self) -> ProtocolMessage:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=self._topic, partitions=[self._partition])
            ],
        )

    def _produce_request(self) -> ProtocolMessage:
        rewrite_producer(self._batch, self.id, self.epoch, self._sequence)
        data = PartitionProduceData(index=self._partition, records=bytes(self._batch))
        return ProduceRequest(
            transactional_id=self._name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )

    def _end_request(self) -> ProtocolMessage:
        return EndTxnRequest(
            transactional_id=self._name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=True,
        )

    def _ended(self, answer: ProtocolMessage) -> int:
        assert isinstance(answer, EndTxnResponse)
        if not answer.error_code:
            self._sequence += 1
            if answer.producer_id >= 0:
                self.id, self.epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0
        return answer.error_code


def commit_times_ms(servers: str, topic: str, protocol: Protocol, count: int) -> list[float]:
    """Of one producer that commits `count` small transactions: EndTxn, from send to reply."""
    producer = _Producer(servers, f"one-{time.time_ns()}", topic, 0, protocol)
    producer.initialise()
    begun = 0

    def left() -> bool:
        nonlocal begun
        begun += 1
        return begun <= count

    producer.steps = producer.transactions(left)
    times_ms = []
    while producer.go_on():
        time.sleep(max(0.0, producer.due - time.perf_counter()))
        began = time.perf_counter()
        reply = producer.call()
        taken_ms = (time.perf_counter() - began) * 1e3
        if isinstance(reply, EndTxnResponse) and not reply.error_code:
            times_ms.append(taken_ms)
    producer.line.socket.close()
    return times_ms


def _added(answer: ProtocolMessage) -> int:
    assert isinstance(answer, AddPartitionsToTxnResponse)
    topic = answer.results_by_topic_v3_and_below[0]
    return topic.results_by_partition[0].partition_error_code


def _produced(answer: ProtocolMessage) -> int:
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def _call_until_ready(
    line: Line, request: ProtocolMessage, version: int, code_of: Callable[[ProtocolMessage], int]
) -> None:
    deadline = time.perf_counter() + TIMEOUT_S
    while code := code_of(line.call(request, version)):
        if code not in (*COMING_UP, NOT_ENDED_YET) or time.perf_counter() > deadline:
            raise RuntimeError(f"{type(request).__name__} was refused: error {code}")
        time.sleep(0.02)


class TransactionHerd:
    """Producers that have their ids; close it at the end."""

    def __init__(self, servers: str, topic: str, producers: int, protocol: Protocol) -> None:
        name = f"herd-{time.time_ns()}"
        self._producers = [
            _Producer(servers, f"{name}-{number}", topic, number % PARTITIONS, protocol)
            for number in range(producers)
        ]
        for producer in self._producers:
            producer.initialise()

    def close(self) -> None:
        for producer in self._producers:
            producer.line.socket.close()

    def commit(self, count: int) -> float:
        """The seconds for `count` transactions of one small record each."""
        begun = 0

        def left() -> bool:
            nonlocal begun
            begun += 1
            return begun <= count

        epoll = select.epoll()
        by_fd = {producer.line.socket.fileno(): producer for producer in self._producers}
        for fd in by_fd:
            epoll.register(fd, select.EPOLLIN)
        started = time.perf_counter()
        for producer in self._producers:
            producer.steps = producer.transactions(left)
        active = [producer for producer in self._producers if producer.go_on()]
        for producer in active:
            producer.send()
        _serve(epoll, by_fd, len(active))
        seconds = time.perf_counter() - started
        epoll.close()
        return seconds


def _serve(epoll: select.epoll, by_fd: dict[int, _Producer], active: int) -> None:
    """Until no producer has anything left to send."""
    waiting: deque[_Producer] = deque()  # all wait equally long: in the order of their times
    while active:
        until = waiting[0].due - time.perf_counter() if waiting else TIMEOUT_S
        ready = epoll.poll(max(0.0, until))
        if not ready and not waiting:
            raise TimeoutError(f"{active} producers without an answer")
        for fd, _ in ready:
            producer = by_fd[fd]
            producer.receive()
            if not producer.go_on():
                active -= 1
            elif producer.due:
                waiting.append(producer)
            else:
                producer.send()
        while waiting and waiting[0].due <= time.perf_counter():
            waiting.popleft().send()
