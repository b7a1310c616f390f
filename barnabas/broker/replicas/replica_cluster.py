"""What replicas need of the cluster membership (broker/cluster/membership.py)."""

from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

from barnabas.broker.cluster.peers import Peers
from barnabas.broker.topic import Topic
from barnabas.model.ids import BrokerId
from barnabas.wire.codec import ProtocolMessage


class ReplicaCluster(Protocol):
    """The registration of this broker, the other brokers, and the controller."""

    peers: Peers
    broker_epoch: int
    """Of this registration."""

    @property
    def members(self) -> Mapping[BrokerId, object]:
        """The registered brokers."""
        ...

    def admit(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> None:
        """Raises Fenced, with STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH, if the epochs are
        old."""
        ...

    async def learn(self, topics: Iterable[tuple[str, UUID]]) -> None:
        """Read the settings of topics that are new here."""
        ...

    def topic(self, name: str, id_: UUID) -> Topic:
        """The topic with this id; its settings are known."""
        ...

    async def ask_controller(self, request: ProtocolMessage, timeout_ms: int) -> ProtocolMessage:
        """Its reply; Retriable when the controller is unknown or does not reply."""
        ...

    def is_connected(self) -> bool:
        """To the keeper; if not, other brokers may have been elected to lead its partitions."""
        ...

    def rack_of(self, broker: int) -> str | None: ...
