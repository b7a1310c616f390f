"""Sends the batches of an asyncio producer: one callback of the loop sends all that are due.

Always: no task and no timer per record; a response is handled in the callback of its future.
Not here: which batches are due (producer/outbox.py), callers that wait (producer.py).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from barnabas.client.cluster import ClusterClient
from barnabas.client.producer.outbox import Outbox, Outgoing
from barnabas.client.producer.producing import (
    ProduceCall,
    answers_of,
    identify,
    learn,
    now_ms,
    producer_identity,
    refresh_metadata,
    request_of,
    tried,
)
from barnabas.client.producer.transacting import Transacting
from barnabas.model.errors import KafkaError


class LoopSender:
    """Of one producer. `here` returns its loop, or raises on another loop. `on_turn` is called
    after all due batches were sent. The producer sets `outbox` and `transacting`.
    """

    outbox: Outbox
    transacting: Transacting | None = None

    def __init__(
        self,
        cluster: ClusterClient,
        here: Callable[[], asyncio.AbstractEventLoop],
        on_turn: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._here = here
        self._on_turn = on_turn
        self._request_timeout_ms = cluster.config.request_timeout_ms
        self._scheduled = False
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._down_until: dict[int, int] = {}

    def wake(self) -> None:
        loop = self._here()
        if not self._scheduled and not self._stopped:
            loop.call_soon(self._pump)
            self._scheduled = True

    def stop(self, *, loop_closed: bool) -> None:
        """Nothing more is sent."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if not loop_closed:
            for task in self._tasks.values():
                task.cancel()

    async def partitions_added(self) -> None:
        """Until no partition is being added to a transaction."""
        if (adding := self._tasks.get("partitions")) is not None:
            await asyncio.wait([adding])

    # --- what the loop calls ---

    def _pump(self) -> None:
        self._scheduled = False
        if self._stopped:
            return
        outbox = self.outbox
        now = now_ms()
        while requests := outbox.poll(now, self._ready):
            for outgoing in requests:
                self._send(outgoing, now)
        outbox.metadata_refresh.expire(now)
        # A task that has learned may still be in `_tasks`: it wakes the producer as it leaves.
        if "metadata" not in self._tasks and outbox.metadata_refresh.wanted(now):
            outbox.metadata_refresh.asking = True
            self._spawn("metadata", self._refresh())
        if outbox.wants_identity():
            self._spawn("identity", self._identify())
        if self.transacting is not None and self.transacting.adding:
            self._spawn("partitions", self._add_partitions(self.transacting))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = outbox.next_deadline(now)
        if deadline is not None:
            wait_s = max(deadline - now, 1) / 1000
            self._timer = self._here().call_later(wait_s, self.wake)
        self._on_turn()

    def _ready(self, node: int) -> bool:
        if self._cluster.connected(node) is not None:
            return True
        if now_ms() >= self._down_until.get(node, 0):
            self._spawn(node, self._connect(node))
        return False

    def _send(self, outgoing: Outgoing, now: int) -> None:
        connection = self._cluster.connected(outgoing.node)
        assert connection is not None
        outbox = self.outbox
        settings = outbox.settings
        request = request_of(outgoing, settings, self._request_timeout_ms, outbox.transactions)
        try:
            if settings.acks == 0:
                leaving = request.send_one_way(connection)
                if leaving is None:
                    outbox.sent_one_way(outgoing)
                else:
                    assert isinstance(leaving, asyncio.Future)
                    leaving.add_done_callback(lambda done: self._done(outgoing, None, done))
                return
            waiting = request.send(connection)
        except KafkaError as problem:
            outbox.unsent(outgoing, problem, now)
            return
        assert isinstance(waiting, asyncio.Future)
        waiting.add_done_callback(lambda done: self._done(outgoing, request, done))

    def _done(
        self, outgoing: Outgoing, request: ProduceCall | None, done: "asyncio.Future[Any]"
    ) -> None:
        """A response arrived; or, without `request`, the bytes have left and none follows."""
        if self._stopped:
            return
        now = now_ms()
        problem = done.exception()
        if problem is not None:
            assert isinstance(problem, KafkaError)
            self.outbox.unanswered(outgoing, problem, now)
        elif request is None:
            self.outbox.sent_one_way(outgoing)
        else:
            self.outbox.answered(outgoing, answers_of(done.result(), request.names), now)
        self._pump()

    # --- flows beside ---

    def _spawn(self, key: object, flow: Coroutine[Any, Any, None]) -> None:
        if key in self._tasks:
            flow.close()
            return
        task = asyncio.get_running_loop().create_task(flow)
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._ended(key, done))

    def _ended(self, key: object, task: "asyncio.Task[None]") -> None:
        del self._tasks[key]
        if not task.cancelled():  # else the loop is about to end, and wants no more tasks
            self.wake()

    async def _refresh(self) -> None:
        outbox = self.outbox
        found = await tried(refresh_metadata(self._cluster, outbox.accumulator.topics()))
        learn(outbox, *found, now_ms(), reached=self._cluster.reached)

    async def _identify(self) -> None:
        if identify(self.outbox, *await tried(producer_identity(self._cluster))):
            await asyncio.sleep(self.outbox.settings.backoff_ms / 1000)

    async def _add_partitions(self, flows: Transacting) -> None:
        await tried(flows.add_partitions())  # the state says what went wrong

    async def _connect(self, node: int) -> None:
        try:
            await self._cluster.broker(node)
        except KafkaError as problem:
            self._down_until[node] = now_ms() + self.outbox.settings.backoff_ms
            self.outbox.unreachable(node, problem)
            await asyncio.sleep(self.outbox.settings.backoff_ms / 1000)
