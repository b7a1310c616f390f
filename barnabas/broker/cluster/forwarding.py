"""Requests that only the controller answers, forwarded from the broker that received them.

In: a request of a client, or of this broker. Out: the controller's response.
Always: NOT_CONTROLLER is returned only when there was no controller for as long as the request
may take; nothing is forwarded twice, so that two brokers that take each other for the controller
do not forward in a loop.
Not here: the responses (handlers/, on the controller).
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.broker.cluster.settings_propagation import SettingsPropagation
from barnabas.broker.cluster_member import PEER
from barnabas.broker.context import BrokerContext
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.wire.codec import ProtocolMessage, Struct

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.cluster.membership import ClusterMembership

TIMEOUT_MS = 30_000  # for requests without a timeout
TIMEOUT_MS_MAX = 120_000
ANSWER_MS = 1_000  # for the way back of a response that the controller sends in time
AGAIN_MS = 50
# AlterConfigs, IncrementalAlterConfigs, AlterClientQuotas, AlterUserScramCredentials
SETTINGS = (33, 44, 49, 51)

Handle = Callable[["Broker", Any, Call], Any]


class Forwarding:
    """The forwarding of one broker."""

    def __init__(self, context: BrokerContext, cluster: "ClusterMembership") -> None:
        self._loop = context.loop
        self._cluster = cluster
        self.settings = SettingsPropagation(cluster, context.log)

    def close(self) -> None:
        self.settings.close()

    def when_ready(self, handle: Handle) -> Handle:
        """Requests to a broker that has just joined wait until it knows its cluster."""
        cluster = self._cluster

        async def wait(broker: "Broker", request: ProtocolMessage, call: Call) -> ProtocolMessage:
            await cluster.ready.wait()
            if cluster.left:
                raise Retriable(Code.BROKER_NOT_AVAILABLE, "this broker is stopping")
            response = handle(broker, request, call)
            response = response if isinstance(response, ProtocolMessage) else await response
            assert isinstance(response, ProtocolMessage)
            return response

        def answer(broker: "Broker", request: ProtocolMessage, call: Call) -> object:
            if cluster.ready.is_set():
                return handle(broker, request, call)
            return wait(broker, request, call)

        return answer

    def forwarded(self, handle: Handle) -> Handle:
        """The same handler; if this broker is not the controller, the controller's response."""

        def answer(broker: "Broker", request: Any, call: Call) -> Any:
            if call.client_id.startswith(PEER):
                return handle(broker, request, call)
            return self._forward(handle, broker, request, call)

        return answer

    async def _forward(
        self, handle: Handle, broker: "Broker", request: ProtocolMessage, call: Call
    ) -> ProtocolMessage:
        timeout_ms = min(max(0, getattr(request, "timeout_ms", TIMEOUT_MS)), TIMEOUT_MS_MAX)
        try:
            answer = await self.ask(request, timeout_ms, call.version)
            if request.api_key in SETTINGS:  # the client must read the new value next
                await self.settings.wait(request, answer)
            return answer
        except KafkaError:
            # This broker is not the controller either: the handler reports it for each part.
            response = await handle(broker, request, call)
            assert isinstance(response, ProtocolMessage)
            return response

    async def ask(
        self, request: ProtocolMessage, timeout_ms: int, version: int | None = None
    ) -> ProtocolMessage:
        """Retried with the next controller if the asked broker is no longer controller."""
        cluster, loop = self._cluster, self._loop
        deadline = loop.time() + timeout_ms / 1000
        while True:
            left_ms = max(1, round((deadline - loop.time()) * 1000))
            problem: KafkaError | None = None
            controller = cluster.controller_id
            if controller is not None:
                try:
                    answer = await cluster.peers.call(
                        controller,
                        request,
                        lane="forward",
                        timeout_ms=left_ms + ANSWER_MS,
                        version=version,
                    )
                    if not says_not_controller(answer):
                        return answer
                except Retriable as error:
                    problem = error
            if loop.time() >= deadline:
                raise problem or Retriable(Code.NOT_CONTROLLER, "there is no controller")
            await asyncio.sleep(AGAIN_MS / 1000)


def says_not_controller(answer: Struct) -> bool:
    """For the whole request, or for any part of it."""
    if getattr(answer, "error_code", 0) == Code.NOT_CONTROLLER:
        return True
    for name in type(answer).wire_fields:
        value = getattr(answer, name)
        if isinstance(value, list):
            for each in value:
                if isinstance(each, Struct) and says_not_controller(each):
                    return True
    return False
