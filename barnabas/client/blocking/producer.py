"""The blocking producer: records in on any thread, requests out on one of its own.

Always: what decides (outbox.py) is touched under one lock; sockets are the sender thread's alone;
whoever waits, waits on the condition that every answer notifies.
"""

import os
import random
import select
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from barnabas.client.accumulator import Accumulator, BufferFull, Partitioner
from barnabas.client.batches import Batch, Callback, Delivery, RecordMetadata
from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.connection import Answer, Connection
from barnabas.client.blocking.net import run
from barnabas.client.cluster import Cluster
from barnabas.client.intake import Intake
from barnabas.client.outbox import Outbox, Outgoing
from barnabas.client.producing import (
    Interceptor,
    Request,
    Serializer,
    answers_of,
    picture,
    preparation,
    producer_identity,
    request_of,
    rules_of,
)
from barnabas.config.client import Settings, Value
from barnabas.model.errors import Code, Failed, KafkaError, Retriable
from barnabas.wire.messages.produce import ProduceResponse

T = TypeVar("T")
_SLEEP_S_MAX = 60.0
_CLOSE_S_MAX = 5.0


class _Accumulator(Accumulator):
    waiting: Callable[[Delivery, float | None], None]

    def wait(self, delivery: Delivery, timeout: float | None) -> None:
        self.waiting(delivery, timeout)


class _Sent(NamedTuple):
    outgoing: Outgoing
    request: Request
    answer: Answer[ProduceResponse]
    connection: Connection
    deadline: int


class Producer(Intake):
    """Sends records; see docs/CLIENT.md. Threads may share one."""

    def __init__(
        self,
        settings: Settings | None = None,
        /,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[Interceptor] = (),
        **options: Value,
    ) -> None:
        self._cluster: Cluster = open_cluster(settings, options)
        config = self._cluster.config
        rules = rules_of(config)
        accumulator = _Accumulator(
            batch_size_max=config.batch_size,
            buffer_size_max=config.buffer_memory,
            record_size_max=config.max_request_size,
            clock=time.monotonic,
            wall=time.time,
            chance=random.random,
            wake=self._wake,
            partitioner=partitioner,
        )
        accumulator.waiting = self._wait
        lock = threading.RLock()
        super().__init__(
            accumulator, preparation(key_serializer, value_serializer, interceptors), lock
        )
        self._outbox = Outbox(accumulator, rules, random.random)
        self._request_timeout_ms = config.request_timeout_ms
        self._changed = threading.Condition(lock)
        self._thread: threading.Thread | None = None
        self._asleep = False
        self._stopping = False
        self._bell: tuple[int, int] | None = None
        self._sent: list[_Sent] = []
        self._down_until: dict[int, int] = {}

    def __enter__(self) -> Self:
        run(self._cluster.view())
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.close()
        except KafkaError:
            if kind is None:  # else what went wrong first is the one to be seen
                raise

    # --- what users call ---

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Any = (),
        partition: int | None = None,
        timestamp: int | None = None,
        callback: Callback | None = None,
    ) -> RecordMetadata:
        """Add a record as soon as there is room, and wait until it is written."""
        while True:
            try:
                delivery = self.send_nowait(
                    topic,
                    value,
                    key=key,
                    headers=headers,
                    partition=partition,
                    timestamp=timestamp,
                    callback=callback,
                )
            except BufferFull:
                self.drain()
                continue
            return delivery.result()

    def drain(self) -> None:
        """Return when there is room for more: to be called between `send_nowait`s."""
        accumulator = self._accumulator
        if accumulator.used < accumulator.buffer_size_max:
            return
        limit_ms = self._outbox.rules.block_ms_max
        with self._changed:
            self._wake()
            there_is = self._changed.wait_for(
                lambda: accumulator.used < accumulator.buffer_size_max, limit_ms / 1000
            )
        if not there_is:
            raise BufferFull(
                Code.REQUEST_TIMED_OUT,
                f"buffer.memory={accumulator.buffer_size_max} has been full for "
                f"max.block.ms={limit_ms}: is the broker there?",
            )

    def flush(self) -> None:
        """Return when all records sent so far are written; raises if some could not be."""
        with self._changed:
            self._outbox.flushing += 1
            try:
                self._wake()
                self._changed.wait_for(lambda: not self._accumulator.unknown)
                under_way = [
                    _whole(batch)
                    for queue in self._accumulator.queues()
                    for batch in (*queue.flying, *queue.waiting)
                ]
                self._changed.wait_for(lambda: all(batch.done for batch in under_way))
            finally:
                self._outbox.flushing -= 1
            count, first = self._accumulator.take_failed()
        if first is not None:
            raise Failed(first.code, f"{count} records were not written, the first: {first.detail}")

    def close(self) -> None:
        """Flush, and let go of all connections."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            self.flush()
        finally:
            with self._lock:
                self._stopping = True
                thread = self._thread
                self._wake()
            if thread is not None:
                thread.join(_CLOSE_S_MAX)
            self._cluster.close()

    def _wait(self, delivery: Delivery, timeout: float | None) -> None:
        with self._changed:
            if not self._changed.wait_for(delivery.done, timeout):
                raise Retriable(Code.REQUEST_TIMED_OUT, f"no answer within {timeout} s")

    # --- the sender's thread ---

    def _wake(self) -> None:
        if self._thread is None:
            self._bell = os.pipe()
            os.set_blocking(self._bell[1], False)
            self._thread = threading.Thread(target=self._run, name="barnabas-producer", daemon=True)
            self._thread.start()
        elif self._asleep and self._bell is not None:
            self._asleep = False
            os.write(self._bell[1], b"!")

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._stopping:
                    break
                self._asleep = False
                now = _now()
                requests = self._outbox.poll(now, self._ready)
                self._changed.notify_all()
                wants_metadata = self._outbox.wants_metadata(now)
                wants_identity = self._outbox.wants_identity()
            for outgoing in requests:
                self._send(outgoing)
            down = self._to_connect()
            for node in down:
                self._connect(node)
            if wants_metadata:
                self._refresh()
            if wants_identity:
                self._identify()
            if not (requests or down or wants_metadata or wants_identity):
                self._rest()
        with self._lock:
            if self._bell is not None:
                os.close(self._bell[0])
                os.close(self._bell[1])
                self._bell = None

    def _rest(self) -> None:
        """Until an answer, a bell or a deadline."""
        with self._lock:
            if self._bell is None:
                return
            bell = self._bell[0]
            now = _now()
            deadlines = [sent.deadline for sent in self._sent]
            if (next_one := self._outbox.next_deadline(now)) is not None:
                deadlines.append(next_one)
            deadlines += [at for at in self._down_until.values() if at > now]
            connections = {
                sent.connection.fileno(): sent.connection
                for sent in self._sent
                if not sent.connection.closed
            }
            self._asleep = True
        wait_s = min([(deadline - now) / 1000 for deadline in deadlines], default=_SLEEP_S_MAX)
        poller = select.poll()
        for descriptor in (bell, *connections):
            poller.register(descriptor, select.POLLIN)
        for descriptor, _ in poller.poll(max(wait_s, 0.001) * 1000):
            if descriptor == bell:
                os.read(bell, 4096)
                continue
            try:
                connections[descriptor].take_in(self._request_timeout_ms / 1000)
            except KafkaError:
                pass  # the connection says so to each of its requests
        self._sweep()

    def _sweep(self) -> None:
        """Answers that came, and requests that will have none."""
        with self._lock:
            now = _now()
            left: list[_Sent] = []
            for sent in self._sent:
                if sent.answer.response is not None:
                    self._take(sent, now)
                elif sent.connection.problem is not None:
                    self._outbox.unanswered(sent.outgoing, sent.connection.problem, now)
                elif now >= sent.deadline:
                    sent.connection.close()
                    late = f"{sent.connection.address}: no answer in time"
                    problem = Retriable(Code.REQUEST_TIMED_OUT, late)
                    self._outbox.unanswered(sent.outgoing, problem, now)
                else:
                    left.append(sent)
            self._sent = left
            self._changed.notify_all()

    def _take(self, sent: _Sent, now: int) -> None:
        try:
            response = sent.answer.wait()
        except KafkaError as problem:
            self._outbox.unanswered(sent.outgoing, problem, now)
        else:
            self._outbox.answered(sent.outgoing, answers_of(response, sent.request.names), now)

    def _ready(self, node: int) -> bool:
        return self._cluster.connected(node) is not None

    def _to_connect(self) -> list[int]:
        with self._lock:
            now = _now()
            leaders = {q.leader: None for q in self._accumulator.active if q.leader >= 0}
            return [
                node
                for node in leaders
                if self._cluster.connected(node) is None and now >= self._down_until.get(node, 0)
            ]

    def _send(self, outgoing: Outgoing) -> None:
        rules = self._outbox.rules
        connection = self._cluster.connected(outgoing.node)
        view = self._cluster.known
        assert view is not None
        now = _now()
        request = request_of(outgoing, view, rules, self._request_timeout_ms)
        try:
            if connection is None:
                raise Retriable(Code.NETWORK_EXCEPTION, f"broker {outgoing.node} hung up")
            assert isinstance(connection, Connection)
            if rules.acks == 0:
                connection.tell(request.message, version_max=request.version_max)
                with self._lock:
                    self._outbox.told(outgoing)
                return
            answer = connection.send(
                request.message,
                ProduceResponse,
                timeout_ms=self._request_timeout_ms,
                version_max=request.version_max,
            )
        except KafkaError as problem:
            with self._lock:
                self._outbox.unsent(outgoing, problem, now)
            return
        deadline = now + self._request_timeout_ms
        self._sent.append(_Sent(outgoing, request, answer, connection, deadline))

    # --- flows beside ---

    def _refresh(self) -> None:
        with self._lock:
            topics = self._accumulator.topics()
        view, problem = _tried(picture(self._cluster, topics))
        with self._lock:
            if view is not None:
                self._outbox.learned(view, _now())
            elif problem is not None:
                for_good = self._cluster.known is None
                self._outbox.unlearned(problem, _now(), for_good=for_good)
            self._changed.notify_all()

    def _identify(self) -> None:
        identity, problem = _tried(producer_identity(self._cluster))
        with self._lock:
            if identity is not None:
                self._outbox.identify(*identity)
                return
            assert problem is not None
            retriable = isinstance(problem, Retriable)
            self._outbox.unidentified(problem, for_good=not retriable)
            self._changed.notify_all()
        if retriable:
            time.sleep(self._outbox.rules.backoff_ms / 1000)

    def _connect(self, node: int) -> None:
        _, problem = _tried(self._cluster.broker(node))
        if problem is not None:
            with self._lock:
                self._down_until[node] = _now() + self._outbox.rules.backoff_ms
                self._outbox.unreachable(node, problem)


def _tried(flow: Coroutine[Any, Any, T]) -> tuple[T | None, KafkaError | None]:
    try:
        return run(flow), None
    except KafkaError as problem:
        return None, problem


def _whole(batch: Batch) -> Batch:
    while batch.owner is not None:
        batch = batch.owner
    return batch


def _now() -> int:
    return time.monotonic_ns() // 1_000_000
