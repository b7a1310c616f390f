"""The blocking producer: accepts records on any thread, sends requests on a thread of its own.

Always: one lock protects the outbox (producer/outbox.py); only the sender thread uses the sockets;
callers wait on one condition, which every response and the end of the sender thread notify.
Not here: the thread (sender_thread.py), and what it sends (sender.py).
"""

import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Self

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.net import run
from barnabas.client.blocking.sender import Sender
from barnabas.client.blocking.sender_thread import BlockingAccumulator, SenderThread
from barnabas.client.blocking.transaction import Transaction, of_transactions
from barnabas.client.cluster import ClusterClient
from barnabas.client.producer.accumulator import BufferFull, Partitioner
from barnabas.client.producer.batches import (
    Callback,
    Delivery,
    RecordMetadata,
    fresh,
)
from barnabas.client.producer.intake import Intake, closed
from barnabas.client.producer.outbox import Outbox
from barnabas.client.producer.producing import (
    HURRY_S,
    ProducerInterceptor,
    Serializer,
    accumulator_of,
    drained_size,
    given_up,
    preparation,
    raise_beside,
    raise_failed,
    still_full,
    under_way,
    whole,
)
from barnabas.client.producer.settings import settings_of
from barnabas.client.producer.transacting import (
    Transacting,
    no_transactions,
    transacting_of,
    transactions_of,
)
from barnabas.config.client import Settings, Value
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable

_CLOSE_S_MAX = 5.0


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
        interceptors: Sequence[ProducerInterceptor] = (),
        **options: Value,
    ) -> None:
        self._cluster: ClusterClient = open_cluster(settings, options)
        config = self._cluster.config
        producer_settings = settings_of(config)
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._thread = SenderThread(self._changed, self._failed)
        accumulator = accumulator_of(BlockingAccumulator, config, self._thread.wake, partitioner)
        accumulator.waiting = self._wait
        accumulator.uncalled = deque()
        accumulator.announced = 0
        accumulator.lock = lock
        super().__init__(
            accumulator, preparation(key_serializer, value_serializer, interceptors), lock
        )
        self._transactions = transactions_of(config, self._transaction_changed)
        self._outbox = Outbox(accumulator, producer_settings, random.random, self._transactions)
        self._transacting = transacting_of(
            self._cluster, self._outbox, self._changed, self._settled
        )
        self._refusing = self._transactions is not None
        self._sender = Sender(
            self._cluster, self._outbox, accumulator, self._changed, self._transacting
        )
        self._thread.sender = self._sender
        self._thread.outbox = self._outbox
        self._thread.accumulator = accumulator
        self._closed = False
        self._released = False
        self._forked = False
        _producers.add(self)

    def __enter__(self) -> Self:
        timeout_ms = self._outbox.settings.block_ms_max
        run(self._cluster.retrying(self._cluster.view, timeout_ms=timeout_ms))
        return self

    def __exit__(self, kind: object, problem: BaseException | None, _: object) -> None:
        try:
            self.close(timeout_s=None if problem is None else HURRY_S)
        except KafkaError as why:
            raise_beside(why, problem)

    def forked(self) -> None:
        """In a child process: its thread is not here, and locks may be held for ever."""
        self._forked = self._released = self._closed = self._refusing = True
        self._thread.accumulator.lock = threading.RLock()

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
                self._drained(self._accumulator.buffer_size_max)
                continue
            return delivery.result()

    def drain(self) -> None:
        """Return when half of buffer.memory is free: to be called between `send_nowait`s."""
        self._drained(drained_size(self._accumulator.buffer_size_max))

    def _drained(self, below: int) -> None:
        accumulator = self._accumulator
        if accumulator.used < below:
            return
        self._check_may_wait()
        settings = self._outbox.settings
        with self._changed:
            self._outbox.flushing += 1  # else it would wait for the linger of batches
            try:
                in_time = self._until(
                    lambda: accumulator.used < below or self._closed, settings.block_ms_max / 1000
                )
            finally:
                self._outbox.flushing -= 1
        if not in_time and accumulator.used >= accumulator.buffer_size_max:
            raise still_full(accumulator, settings)

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
                batches = [whole(batch) for batch in under_way(self._accumulator)]
                left = None if deadline is None else max(0, deadline - time.monotonic())
                self._until(lambda: all(batch.done for batch in batches), left)
                announced = self._thread.announced
                left = None if deadline is None else max(0, deadline - time.monotonic())
                self._until(lambda: self._thread.has_called_back(announced), left)
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
        if self._transacting is not None:
            run(self._transacting.last(timeout_s))
        with self._changed:
            self._released = self._closed = self._refusing = True
            self._changed.notify_all()
        try:
            self._flushed(timeout_s)
        finally:
            with self._changed:
                self._sender.stopping = True
                self._outbox.results.abandon(given_up())
                self._changed.notify_all()
                self._thread.wake_if_running()
            self._thread.call_back()
            self._thread.join(_CLOSE_S_MAX if timeout_s is None else min(timeout_s, _CLOSE_S_MAX))
            self._cluster.close()
        raise_failed(self._accumulator)

    # --- transactions ---

    init_transactions = of_transactions(Transacting.initialize)
    begin_transaction = of_transactions(Transacting.begin)
    send_offsets_to_transaction = of_transactions(Transacting.send_offsets)
    commit_transaction = of_transactions(Transacting.commit)
    abort_transaction = of_transactions(Transacting.abort)

    def transaction(self) -> "Transaction":
        """`with producer.transaction(): ...` commits at the end, aborts on an exception."""
        return Transaction(self._transactional())

    def _transactional(self) -> Transacting:
        self._check_may_wait()
        if self._closed:
            raise self._refusal()
        if self._transacting is None:
            raise no_transactions()
        return self._transacting

    def _transaction_changed(self) -> None:
        """Called under the lock."""
        assert self._transactions is not None
        self._refusing = self._closed or not self._transactions.accepting
        self._changed.notify_all()
        self._thread.wake_if_running()

    async def _settled(self, timeout_ms: int) -> bool:
        with self._changed:
            self._outbox.flushing += 1
            try:
                return self._until(self._is_settled, timeout_ms / 1000)
            finally:
                self._outbox.flushing -= 1

    def _is_settled(self) -> bool:
        called = self._thread.has_called_back(self._thread.announced)
        return called and not self._accumulator.used and not self._sender.adding

    def _failed(self) -> None:
        self._closed = self._refusing = True

    # --- waiting ---

    def _check_may_wait(self) -> None:
        if self._forked:
            raise self._refusal()
        if self._thread.is_current:
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                "this call would block the producer's own thread, because it comes from a callback;"
                " use send_nowait() in callbacks",
            )

    def _refusal(self) -> KafkaError:
        if self._forked:
            return InvalidRequest(
                Code.INVALID_REQUEST,
                "the producer was made before this process was forked: make another here",
            )
        if self._thread.problem is not None:
            return fresh(self._thread.problem)
        if self._closed or self._transactions is None:
            return closed()
        return self._transactions.refusal()

    def _until(self, there: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for it, or for the sender's thread to have failed; False: the time is up."""
        thread = self._thread
        with self._changed:
            if thread.problem is None and not there():
                thread.wake()
            return self._changed.wait_for(lambda: there() or thread.problem is not None, timeout)

    def _wait(self, delivery: Delivery, timeout: float | None) -> None:
        self._check_may_wait()
        in_time = self._until(delivery.done, timeout)
        if not in_time:
            raise Retriable(Code.REQUEST_TIMED_OUT, f"no answer within {timeout} s")
        if not delivery.done():
            raise self._refusal()


_producers: "weakref.WeakSet[Producer]" = weakref.WeakSet()


def _after_fork() -> None:
    for producer in _producers:
        producer.forked()


os.register_at_fork(after_in_child=_after_fork)
