"""Drives the controller on this broker: stands for election, and carries out what it decides.

In: the keeper's news, requests that only the controller answers. Out: writes to the keeper, each
with a check of this controller's epoch; messages to brokers, in order for each of them.
Always: one thing at a time, from one queue; whoever loses its epoch or its session forgets all it
knows at once, and answers NOT_CONTROLLER.
Not here: what is decided (controller/), where nodes are (controller_store.py), sessions and
registration (cluster.py).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import UUID

from barnabas.controller.steps import Settle
from barnabas.keeper.keeper import Event, Keeper, SessionState
from barnabas.model.errors import Code, Retriable
from barnabas.model.ids import BrokerId
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.peers import Peers

T = TypeVar("T")


class InThread(Protocol):
    """Runs a call that may block where the keeper's calls run, one after the other."""

    def __call__(self, call: Callable[[], T]) -> Awaitable[T]: ...


class Controlling:
    """Every broker of a cluster has one; in one of them, at a time, it is active."""

    def __init__(self, broker: "Broker", peers: "Peers", in_thread: InThread) -> None:
        self._broker = broker
        self._peers = peers
        self._in_thread = in_thread
        self.controller: BrokerId | None = None
        """Who is controller, as /controller says; None: nobody, or not known now."""
        self.active = False
        self.epoch = 0
        self.queue_length = 0
        self.elections = 0
        self.unclean_elections = 0
        self.election_ms_last = 0
        self.election_ms_total = 0
        self.offline_partitions = 0
        self.under_replicated = 0
        self.preferred_imbalance = 0

    # From cluster.py, on the loop

    async def stand(self, keeper: Keeper) -> None:
        """A session is open and this broker is registered: stand for election in it.

        Called again with each new session. Returns when it is known who is controller.
        """
        raise NotImplementedError

    def heard(self, news: Event | SessionState) -> None:
        """What the session's listener was told. Events of other paths are not looked at."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Resign, and give /controller back if it is ours."""
        raise NotImplementedError

    # From handlers and the catalog, on the broker that is controller. Each raises NOT_CONTROLLER
    # elsewhere; each answers when all live brokers know of it, or after `timeout_ms`.

    async def create_topic(
        self,
        name: str,
        partitions: int,
        factor: int,
        settings: Mapping[str, str],
        *,
        assignment: Mapping[int, Sequence[BrokerId]] | None = None,
        timeout_ms: int,
    ) -> UUID:
        """Placed as Kafka would, or as told."""
        raise NotImplementedError

    async def add_partitions(
        self,
        name: str,
        total: int,
        *,
        assignment: Sequence[Sequence[BrokerId]] | None = None,
        timeout_ms: int,
    ) -> None:
        raise NotImplementedError

    async def delete_topic(self, name: str, id_: UUID, *, timeout_ms: int) -> None:
        raise NotImplementedError

    async def configure_topic(self, name: str, change: Settle) -> dict[str, str]:
        """The settings now; every broker is told by a note in the keeper."""
        raise NotImplementedError

    async def configure_broker(self, broker: int | None, change: Settle) -> dict[str, str]:
        """Of one broker, or of all (None)."""
        raise NotImplementedError

    async def unregister_broker(self, broker: BrokerId) -> None:
        """One that is gone for good."""
        raise NotImplementedError

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """A leader proposes in-sync sets."""
        raise NotImplementedError

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        """A broker is about to stop: others take over what it leads."""
        raise NotImplementedError

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        raise NotImplementedError

    async def alter_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        raise NotImplementedError

    async def list_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        raise NotImplementedError

    # Inside

    def _not_controller(self) -> Retriable:
        return Retriable(
            Code.NOT_CONTROLLER,
            f"broker {self._broker.id} is not the controller, broker {self.controller} is",
        )
