"""How a leader reaches the share coordinator of its group on another broker."""

from types import SimpleNamespace
from typing import Any

from barnabas.broker.share.states import ShareStates
from barnabas.model.errors import Code, Retriable
from barnabas.wire.messages.write_share_group_state import WriteShareGroupStateRequest


class _SilentPeers:
    def __init__(self) -> None:
        self.lanes: list[str] = []

    async def call(self, _broker: int, _request: Any, *, lane: str, timeout_ms: int) -> Any:
        self.lanes.append(lane)
        raise Retriable(Code.REQUEST_TIMED_OUT, f"no answer in {timeout_ms} ms")


async def test_a_state_that_is_not_committed_delays_no_order_of_the_controller() -> None:
    """A coordinator may wait for an order of the controller before it can commit the state: on one
    connection, the order would wait behind the write."""
    peers = _SilentPeers()
    states = ShareStates.__new__(ShareStates)
    states._broker = SimpleNamespace(
        cluster=SimpleNamespace(peers=peers),
        config=SimpleNamespace(share_coordinator_write_timeout_ms=5_000),
    )
    request = WriteShareGroupStateRequest(group_id="queue", topics=[])
    assert await states._ask_peer(2, "queue", request, dict) == {}
    assert peers.lanes == ["share"]
