"""The asyncio producer: accepts records at once, sends requests from the event loop.

Always: the response resolves the awaited future directly; callers that wait for buffer space are
served in order; no caller waits for an event loop that is not running.
Not here: deciding what is sent (producer/outbox.py), sending it (sender.py), the path of a record
(producer/accumulator.py).
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Self

from barnabas.client.aio import open_cluster
from barnabas.client.aio.sender import LoopSender
from barnabas.client.aio.transaction import Transaction, of_transactions
from barnabas.client.cluster import ClusterClient
from barnabas.client.producer.accumulator import Accumulator, BufferFull, Partitioner
from barnabas.client.producer.batches import Callback, Delivery, ProducerBatch, RecordMetadata
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
from barnabas.model.errors import Code, Failed, InvalidRequest, KafkaError

_TURN_SIZE = 256 * 1024  # bytes taken in before `drain` lets the loop turn


class _Accumulator(Accumulator):
    here: Callable[[], asyncio.AbstractEventLoop]

    def new_waiter(self) -> "asyncio.Future[None]":
        return self.here().create_future()


class Producer(Intake):
    """Sends records; see docs/CLIENT.md."""

    def __init__(
        self,
        settings: Settings | None = None,
        /,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        cluster: ClusterClient | None = None,
        **options: Value,
    ) -> None:
        self._cluster = cluster or open_cluster(settings, options)
        self._owns = cluster is None
        config = self._cluster.config
        producer_settings = settings_of(config)
        self._sender = LoopSender(self._cluster, self._here, self._turned)
        accumulator = accumulator_of(_Accumulator, config, self._sender.wake, partitioner)
        accumulator.here = self._here
        self._closed = False
        super().__init__(accumulator, preparation(key_serializer, value_serializer, interceptors))
        self._transactions = transactions_of(config, self._transaction_changed)
        self._outbox = Outbox(accumulator, producer_settings, random.random, self._transactions)
        self._transacting = transacting_of(
            self._cluster, self._outbox, nullcontext(), self._settled
        )
        self._refusing = self._transactions is not None
        self._sender.outbox = self._outbox
        self._sender.transacting = self._transacting
        self._loop: asyncio.AbstractEventLoop | None = None
        self._roomless: deque[asyncio.Future[None]] = deque()
        self._line = asyncio.Lock()  # of senders for whom there was no room
        self._in_line = 0
        self._drained_size = drained_size(config.buffer_memory)
        self._turn_at = min(_TURN_SIZE, self._drained_size)

    async def __aenter__(self) -> Self:
        self._here()
        timeout_ms = self._outbox.settings.block_ms_max
        await self._cluster.retrying(self._cluster.view, timeout_ms=timeout_ms)
        return self

    async def __aexit__(self, kind: object, problem: BaseException | None, _: object) -> None:
        try:
            await self.close(timeout_s=None if problem is None else HURRY_S)
        except KafkaError as why:
            raise_beside(why, problem)

    # --- what users call ---

    async def send(
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
        """Add a record as soon as there is room, and return where it was written."""
        self._here()

        def add() -> Delivery:
            return self.send_nowait(
                topic,
                value,
                key=key,
                headers=headers,
                partition=partition,
                timestamp=timestamp,
                callback=callback,
            )

        if self._in_line:
            return await (await self._in_turn(add))
        try:
            delivery = add()
        except BufferFull:
            delivery = await self._in_turn(add)
        return await delivery

    async def drain(self) -> None:
        """Return when half of buffer.memory is free: to be awaited between `send_nowait`s."""
        accumulator = self._accumulator
        if accumulator.used < self._turn_at:
            return
        self._here()
        await asyncio.sleep(0)
        if accumulator.used >= self._drained_size:
            self._outbox.flushing += 1  # else it would wait for the linger of batches
            try:
                async with asyncio.timeout(self._outbox.settings.block_ms_max / 1000):
                    await self._room(self._drained_size)
            except TimeoutError:
                if accumulator.used >= accumulator.buffer_size_max:
                    raise still_full(self._accumulator, self._outbox.settings) from None
            finally:
                self._outbox.flushing -= 1
        self._turn_at = min(accumulator.used + _TURN_SIZE, self._drained_size)

    async def flush(self) -> None:
        """Return when all records sent so far are written; raises if some could not be."""
        await self._flushed()
        raise_failed(self._accumulator)

    async def _flushed(self) -> None:
        self._here()
        self._outbox.flushing += 1
        try:
            self._sender.wake()
            while limbo := [s.limbo_batch for s in self._accumulator.unknown.values()]:
                for batch in limbo:
                    await self._finished(batch)
            for batch in under_way(self._accumulator):
                await self._finished(batch)
        finally:
            self._outbox.flushing -= 1

    async def close(self, *, timeout_s: float | None = None) -> None:
        """Flush, and let go of all connections.

        What is not written after `timeout_s` seconds is given up; without one, each record has
        until its delivery.timeout.ms.
        """
        if self._closed:
            return
        if self._loop is not None and self._loop.is_closed():
            return self._abandon()
        self._here()
        if self._transacting is not None:
            await self._transacting.last(timeout_s)
        self._closed = self._refusing = True
        self._make_room_known()
        try:
            async with asyncio.timeout(timeout_s):
                await self._flushed()
        except TimeoutError:
            pass
        finally:
            self._let_go()
        raise_failed(self._accumulator)

    def _abandon(self) -> None:
        """Closed after its event loop: nothing can be sent, and no caller can wait any more."""
        self._closed = self._refusing = True
        self._let_go()
        if left := self._accumulator.used:
            raise Failed(
                Code.REQUEST_TIMED_OUT,
                f"a producer was closed after its event loop: {left} bytes of records may not have"
                " been written; close it before the loop ends",
            )
        raise_failed(self._accumulator)

    def _let_go(self) -> None:
        loop_closed = self._loop is None or self._loop.is_closed()
        self._sender.stop(loop_closed=loop_closed)
        if not loop_closed:
            self._outbox.results.abandon(given_up())
        if self._owns:
            self._cluster.close()

    # --- transactions ---

    init_transactions = of_transactions(Transacting.initialize)
    begin_transaction = of_transactions(Transacting.begin)
    send_offsets_to_transaction = of_transactions(Transacting.send_offsets)
    commit_transaction = of_transactions(Transacting.commit)
    abort_transaction = of_transactions(Transacting.abort)

    def transaction(self) -> "Transaction":
        """`async with producer.transaction(): ...` commits at the end, aborts on an exception."""
        return Transaction(self._transactional())

    def _transactional(self) -> Transacting:
        self._here()
        if self._closed:
            raise closed()
        if self._transacting is None:
            raise no_transactions()
        return self._transacting

    def _transaction_changed(self) -> None:
        assert self._transactions is not None
        self._refusing = self._closed or not self._transactions.accepting
        self._sender.wake()

    def _refusal(self) -> KafkaError:
        if self._closed or self._transactions is None:
            return closed()
        return self._transactions.refusal()

    async def _settled(self, timeout_ms: int) -> bool:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._flushed()
                await self._sender.partitions_added()
        except TimeoutError:
            return False
        return True

    # --- waiting ---

    def _here(self) -> asyncio.AbstractEventLoop:
        """The running loop, which must be the producer's."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if self._loop is None:
            self._loop = running
        if running is None or running is not self._loop:
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                "a producer belongs to the event loop on which it was first used, and that is not "
                "the one running here: make another, or use barnabas.sync.Producer across threads",
            )
        return running

    async def _in_turn(self, add: Callable[[], Delivery]) -> Delivery:
        """Add a record once those before it are added and there is room."""
        self._in_line += 1
        try:
            async with (
                asyncio.timeout(self._outbox.settings.block_ms_max / 1000) as timer,
                self._line,
            ):
                while True:
                    await self._room(self._accumulator.buffer_size_max)
                    try:
                        return add()
                    except BufferFull:
                        continue
        except TimeoutError:
            if not timer.expired():  # else a serializer's
                raise
            raise still_full(self._accumulator, self._outbox.settings) from None
        finally:
            self._in_line -= 1

    async def _room(self, below: int) -> None:
        accumulator = self._accumulator
        self._sender.wake()
        while accumulator.used >= below:
            if self._refusing:
                raise self._refusal()
            waiter = self._here().create_future()
            self._roomless.append(waiter)
            await waiter

    def _turned(self) -> None:
        """All that was due is sent."""
        accumulator = self._accumulator
        self._turn_at = min(accumulator.used + _TURN_SIZE, self._drained_size)
        if self._roomless and accumulator.used < accumulator.buffer_size_max:
            self._make_room_known()

    def _make_room_known(self) -> None:
        roomless, self._roomless = self._roomless, deque()
        for waiter in roomless:
            if not waiter.done():
                waiter.set_result(None)

    async def _finished(self, batch: ProducerBatch | None) -> None:
        if batch is None or (batch := whole(batch)).done:
            return
        waiter = self._here().create_future()
        if batch.waiters is None:
            batch.waiters = []
        batch.waiters.append(waiter)
        await waiter
