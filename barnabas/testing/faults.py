"""Replies that fail or come late, and clients that are cut off.

A fault applies to requests of clients, not to those between brokers. Handlers are wrapped only
while there is a fault, when their route is next looked up.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.broker.cluster_member import PEER
from barnabas.broker.net.deferred_reply import settled
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, InvalidRequest
from barnabas.testing.error_replies import READS, error_reply, with_error
from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

Handle = Callable[["Broker", Any, Call], Any]


@dataclass(slots=True)
class Fault:
    """`api_key` None: every API. `client` None: every client. `times` None: until `heal`."""

    api_key: int | None
    client: str | None
    times: int | None
    delay_ms: int = 0
    code: Code = Code.NONE
    cut: bool = False

    def takes(self, api_key: int, client: str) -> bool:
        return self.times != 0 and self.api_key in (None, api_key) and self.client in (None, client)

    def use(self) -> None:
        if self.times is not None:
            self.times -= 1


class Faults:
    """Of all brokers of a test. Changed by the test's thread, read by the brokers' threads."""

    def __init__(self) -> None:
        self.active: list[Fault] = []

    def wrapped(self, api_key: int, handle: Handle) -> Handle:
        """The handler of an API, behind the faults."""

        def answer(broker: "Broker", request: Any, call: Call) -> Any:
            fault = self._find(api_key, call)
            return (
                handle(broker, request, call)
                if fault is None
                else _failing(fault, handle, broker, request, call)
            )

        return answer

    def _find(self, api_key: int, call: Call) -> Fault | None:
        if call.client_id.startswith(PEER):
            return None
        for fault in tuple(self.active):
            if fault.takes(api_key, call.client_id):
                return fault
        return None


def api_key_of(name: str) -> int:
    """By Kafka's name, as `OffsetCommit`."""
    for key, api in APIS.items():
        if api.name.lower() == name.lower():
            return key
    known = ", ".join(sorted(api.name for api in APIS.values()))
    raise ValueError(f"there is no API {name!r}; there are {known}")


def code_of(error: str | int) -> Code:
    """By Kafka's name, as `REBALANCE_IN_PROGRESS`, or by number."""
    for code in Code:
        if error in (code.name, int(code)):
            return code
    raise ValueError(f"Kafka has no error {error!r}")


def _failing(fault: Fault, handle: Handle, broker: "Broker", request: Any, call: Call) -> Any:
    fault.use()
    if fault.cut:
        raise InvalidRequest(Code.NETWORK_EXCEPTION, f"{call.client_id} is cut off by the test")
    if fault.delay_ms:
        return _late(fault.delay_ms, handle, broker, request, call)
    if type(request).api_key in READS:
        return _reply_with_error(fault.code, handle, broker, request, call)
    return error_reply(request, fault.code, call.version)


async def _late(delay_ms: int, handle: Handle, broker: "Broker", request: Any, call: Call) -> Any:
    await asyncio.sleep(delay_ms / 1000)
    return await _awaited(handle(broker, request, call))


async def _reply_with_error(
    code: Code, handle: Handle, broker: "Broker", request: Any, call: Call
) -> Any:
    return with_error(await _awaited(handle(broker, request, call)), code)


async def _awaited(answer: Any) -> ProtocolMessage | None:
    if asyncio.iscoroutine(answer):
        answer = await answer
    response: ProtocolMessage | None = await settled(answer)
    return response
