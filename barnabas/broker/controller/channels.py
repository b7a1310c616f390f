"""Sends the controller's requests to brokers: to each of them in order, until it replies.

In: requests, as they are decided on. Out: replies, or nothing from unregistered brokers.
Always: one request at a time to each broker, the next only after the reply; a request that cannot
be delivered is retried as long as the broker has the same registration; a broker that is far
behind gets everything at once instead.
Not here: the contents of requests (controller/messages.py), connections (broker/cluster/peers.py).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.stop_replica import StopReplicaRequest

if TYPE_CHECKING:
    from barnabas.broker.cluster.peers import Peers

TIMEOUT_MS = 30_000  # a broker may have thousands of logs to create
BACKOFF_MS_MIN = 10
BACKOFF_MS_MAX = 500
WAITING_MAX = 100  # requests to one broker

# Other errors mean that the broker could not, for example because its keeper is unreachable.
_FINAL = (Code.NONE, Code.STALE_CONTROLLER_EPOCH, Code.STALE_BROKER_EPOCH)

Answered = Callable[[BrokerId, ProtocolMessage, ProtocolMessage], None]
Registered = Callable[[BrokerId], int]
"""The epoch of a broker's registration; -1: it is not registered."""


class ControllerChannels:
    """The channels of one controller tenure."""

    def __init__(
        self,
        peers: "Peers",
        registered: Registered,
        answered: Answered,
        behind: Callable[[BrokerId], None],
    ) -> None:
        """`behind`: a broker must be sent everything; until then nothing else is sent to it."""
        self._peers = peers
        self._registered = registered
        self._answered = answered
        self._behind = behind
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[BrokerId, deque[tuple[ProtocolMessage, asyncio.Future[None]]]] = {}
        self._tasks: dict[BrokerId, asyncio.Task[None]] = {}

    def send(self, broker: BrokerId, message: ProtocolMessage) -> "asyncio.Future[None]":
        """Done when the broker has replied, or never will."""
        future: asyncio.Future[None] = self._loop.create_future()
        waiting = self._waiting.setdefault(broker, deque())
        waiting.append((message, future))
        if len(waiting) > WAITING_MAX:
            self._drop(broker)
        if broker not in self._tasks:
            self._tasks[broker] = self._loop.create_task(self._carry(broker))
        return future

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        for waiting in self._waiting.values():
            for _, future in waiting:
                _done(future)
        self._tasks.clear()
        self._waiting.clear()

    def _drop(self, broker: BrokerId) -> None:
        """Requests that delete logs are not repeated later, so they stay; the first is being
        sent."""
        first, *rest = self._waiting[broker]
        kept = [each for each in rest if isinstance(each[0], StopReplicaRequest)]
        for message, future in rest:
            if not isinstance(message, StopReplicaRequest):
                _done(future)
        self._waiting[broker] = deque([first, *kept])
        self._behind(broker)

    async def _carry(self, broker: BrokerId) -> None:
        backoff_ms = BACKOFF_MS_MIN
        while self._waiting.get(broker):
            message, future = self._waiting[broker][0]
            epoch = getattr(message, "broker_epoch", -1)
            if self._registered(broker) == epoch:
                try:
                    answer = await self._peers.call(broker, message, timeout_ms=TIMEOUT_MS)
                except KafkaError:  # logged by peers, once
                    answer = None
                if answer is None or getattr(answer, "error_code", 0) not in _FINAL:
                    await asyncio.sleep(backoff_ms / 1000)
                    backoff_ms = min(2 * backoff_ms, BACKOFF_MS_MAX)
                    continue
                backoff_ms = BACKOFF_MS_MIN
                self._answered(broker, message, answer)
            self._waiting[broker].popleft()
            _done(future)
        self._tasks.pop(broker, None)


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
