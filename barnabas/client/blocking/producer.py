"""The blocking producer: records in on any thread, requests out on one of its own.

Always: what decides (outbox.py) is touched under one lock; sockets are the sender thread's alone;
whoever waits, waits on the condition that every answer notifies, and so does the thread's end;
callbacks are called without the lock, as they may wait for a thread that sends; the thread lives no
longer than its producer.
"""

import logging
import os
import random
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from barnabas.client.accumulator import Accumulator, BufferFull, Partitioner
from barnabas.client.batches import Batch, Callback, Delivery, RecordMetadata, complain, fresh
from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.connection import Answer, Connection
from barnabas.client.blocking.net import run
from barnabas.client.cluster import Cluster
from barnabas.client.intake import Intake, closed
from barnabas.client.outbox import Outbox, Outgoing
from barnabas.client.producing import (
    HURRY_S,
    Interceptor,
    Request,
    Serializer,
    answers_of,
    given_up,
    picture,
    preparation,
    producer_identity,
    raise_failed,
    request_of,
    rules_of,
)
from barnabas.config.client import Settings, Value
from barnabas.model.errors import Code, Failed, InvalidRequest, KafkaError, Retriable
from barnabas.wire.messages.produce import ProduceResponse

T = TypeVar("T")
_SLEEP_S_MAX = 60.0
_CLOSE_S_MAX = 5.0


class _Accumulator(Accumulator):
    waiting: Callable[[Delivery, float | None], None]
    lock: "threading.RLock"
    untold: deque[Batch]  # done, and their callbacks not yet called
    announced: int  # that came to `untold` so far

    def announce(self, batch: Batch) -> None:
        if batch.callbacks:
            self.untold.append(batch)
            self.announced += 1

    def heard(self, batch: Batch) -> None:
        with self.lock:
            super().heard(batch)

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
        accumulator.untold = deque()
        accumulator.announced = 0
        lock = accumulator.lock = threading.RLock()
        self._done = accumulator  # the same, for whom callbacks wait
        self._told = 0  # batches whose callbacks were called
        super().__init__(
            accumulator, preparation(key_serializer, value_serializer, interceptors), lock
        )
        self._outbox = Outbox(accumulator, rules, random.random)
        self._request_timeout_ms = config.request_timeout_ms
        self._changed = threading.Condition(lock)
        self._thread: threading.Thread | None = None
        self._asleep = False
        self._rung = False  # while it was awake
        self._stopping = False
        self._released = False
        self._forked = False
        self._problem: KafkaError | None = None  # why the sender's thread has ended
        self._bell: tuple[int, int] | None = None
        self._sent: list[_Sent] = []
        self._down_until: dict[int, int] = {}
        _producers.add(self)

    def __enter__(self) -> Self:
        run(self._cluster.view())
        return self

    def __exit__(self, kind: object, problem: BaseException | None, _: object) -> None:
        try:
            self.close(timeout_s=None if problem is None else HURRY_S)
        except KafkaError as why:
            if problem is None:
                raise
            problem.add_note(f"producer: {why.detail}")  # what went wrong first is to be seen

    def forked(self) -> None:
        """In a child process: its thread is not here, and locks may be held for ever."""
        self._forked = self._released = self._closed = True
        self._done.lock = threading.RLock()

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
        self._check_may_wait()
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
        self._check_may_wait()
        limit_ms = self._outbox.rules.block_ms_max
        if not self._until(
            lambda: accumulator.used < accumulator.buffer_size_max or self._closed,
            limit_ms / 1000,
        ):
            raise BufferFull(
                Code.REQUEST_TIMED_OUT,
                f"buffer.memory={accumulator.buffer_size_max} has been full for "
                f"max.block.ms={limit_ms}: is the broker there?",
            )

    def flush(self) -> None:
        """Return when all records sent so far are written; raises if some could not be."""
        self._check_may_wait()
        self._flushed(None)
        with self._lock:
            raise_failed(self._accumulator)

    def _flushed(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._outbox.flushing += 1
            try:
                if not self._until(lambda: not self._accumulator.unknown, timeout):
                    return
                under_way = [
                    _whole(batch)
                    for queue in self._accumulator.queues()
                    for batch in (*queue.flying, *queue.waiting)
                ]
                left = None if deadline is None else max(0, deadline - time.monotonic())
                self._until(lambda: all(batch.done for batch in under_way), left)
                announced = self._done.announced
                left = None if deadline is None else max(0, deadline - time.monotonic())
                self._until(lambda: self._told >= announced, left)
            finally:
                self._outbox.flushing -= 1

    def close(self, *, timeout_s: float | None = None) -> None:
        """Flush, and let go of all connections.

        What is not written after `timeout_s` seconds is given up; without one, each record has
        until its delivery.timeout.ms.
        """
        if self._released:
            return
        self._check_may_wait()
        with self._changed:
            self._released = self._closed = True
            self._changed.notify_all()
        try:
            self._flushed(timeout_s)
        finally:
            with self._changed:
                self._stopping = True
                self._outbox.abandon(given_up())
                self._changed.notify_all()
                thread = self._thread
                if thread is not None:
                    self._wake()
            self._tell()
            if thread is not None:
                thread.join(_CLOSE_S_MAX if timeout_s is None else min(timeout_s, _CLOSE_S_MAX))
            self._cluster.close()
        raise_failed(self._accumulator)

    # --- waiting ---

    def _check_may_wait(self) -> None:
        if self._forked:
            raise self._refusal()
        if threading.current_thread() is self._thread:
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                "a callback runs on the producer's own thread, which would wait for itself: "
                "send_nowait() is what it may call",
            )

    def _refusal(self) -> KafkaError:
        if self._forked:
            return InvalidRequest(
                Code.INVALID_REQUEST,
                "the producer was made before this process was forked: make another here",
            )
        return closed() if self._problem is None else fresh(self._problem)

    def _until(self, there: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for it, or for the sender's thread to have failed; False: the time is up."""
        with self._changed:
            if self._problem is None and not there():
                self._wake()
            return self._changed.wait_for(lambda: there() or self._problem is not None, timeout)

    def _wait(self, delivery: Delivery, timeout: float | None) -> None:
        self._check_may_wait()
        in_time = self._until(delivery.done, timeout)
        if not in_time:
            raise Retriable(Code.REQUEST_TIMED_OUT, f"no answer within {timeout} s")
        if not delivery.done():
            raise self._refusal()

    # --- the sender's thread ---

    def _wake(self) -> None:
        if self._thread is None:
            bell = self._bell = os.pipe()
            os.set_blocking(bell[1], False)
            held = weakref.ref(self, lambda _: _ring(bell))
            self._thread = threading.Thread(
                target=_serve, args=(held, bell), name="barnabas-producer", daemon=True
            )
            self._thread.start()
        elif self._asleep and self._bell is not None:
            self._asleep = False
            _ring(self._bell)
        else:
            self._rung = True

    def turn(self, ready: list[int]) -> tuple[list[int], float] | None:
        """What is due, given the sockets with answers; then what to wait for, and how long.

        None: the thread ends. Whatever goes wrong, nobody is left waiting.
        """
        try:
            self._take_in(ready)
            while not self._stopping:
                busy = self._busy()
                if not self._tell() and not busy:
                    return self._rest()
        except BaseException as why:
            self._broken(why)
        self._tell()
        with self._lock:
            self._bell = None
        return None

    def _broken(self, why: BaseException) -> None:
        if self._stopping:
            return  # all was given up already
        logging.getLogger("barnabas.client").exception("the producer's thread has failed")
        with self._changed:
            self._stopping = self._closed = True
            said = f"the producer's thread has failed: {type(why).__name__}: {why}"
            self._problem = Failed(Code.UNKNOWN_SERVER_ERROR, said)
            try:
                self._outbox.abandon(self._problem)
            finally:
                self._changed.notify_all()

    def _tell(self) -> bool:
        """Call the callbacks of what is done; False: there were none."""
        some = False
        while True:
            with self._lock:
                if not self._done.untold:
                    return some
                batch = self._done.untold.popleft()
            some = True
            try:
                batch.announce()
            except KeyboardInterrupt:
                complain(batch)  # only the main thread is interrupted; this one was told to be
            finally:
                with self._changed:
                    self._told += 1
                    self._changed.notify_all()

    def _busy(self) -> bool:
        """Do what is due; False: nothing was."""
        with self._lock:
            self._asleep = self._rung = False
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
        return bool(requests or down or wants_metadata or wants_identity)

    def _rest(self) -> tuple[list[int], float]:
        with self._lock:
            now = _now()
            deadlines = [sent.deadline for sent in self._sent]
            if (next_one := self._outbox.next_deadline(now)) is not None:
                deadlines.append(next_one)
            deadlines += [at for at in self._down_until.values() if at > now]
            sockets = {
                sent.connection.fileno(): None for sent in self._sent if not sent.connection.closed
            }
            rung = self._rung or self._stopping
            self._asleep = not rung
        wait_s = min([(deadline - now) / 1000 for deadline in deadlines], default=_SLEEP_S_MAX)
        return list(sockets), 0 if rung else max(wait_s, 0.001)

    def _take_in(self, ready: list[int]) -> None:
        connections = {sent.connection.fileno(): sent.connection for sent in self._sent}
        for descriptor in ready:
            if descriptor not in connections:
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
                connection.tell(
                    request.message,
                    timeout_ms=self._request_timeout_ms,
                    version_max=request.version_max,
                )
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


def _serve(held: "weakref.ref[Producer]", bell: tuple[int, int]) -> None:
    """The sender's thread. It holds no producer while it waits: a forgotten one can go."""
    ready: list[int] = []
    try:
        while True:
            producer = held()
            rest = None if producer is None else producer.turn(ready)
            del producer
            if rest is None:
                return
            sockets, wait_s = rest
            poller = select.poll()
            for descriptor in (bell[0], *sockets):
                poller.register(descriptor, select.POLLIN)
            ready = [descriptor for descriptor, _ in poller.poll(wait_s * 1000)]
            if bell[0] in ready:
                os.read(bell[0], 4096)
    finally:
        del held  # first: it would ring
        os.close(bell[0])
        os.close(bell[1])


def _ring(bell: tuple[int, int]) -> None:
    try:
        os.write(bell[1], b"!")
    except BlockingIOError:
        pass  # it rings already


_producers: "weakref.WeakSet[Producer]" = weakref.WeakSet()


def _after_fork() -> None:
    for producer in _producers:
        producer.forked()


os.register_at_fork(after_in_child=_after_fork)


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
