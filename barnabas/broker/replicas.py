"""The replicas on this broker, as the controller wants them: who leads, who follows, what goes.

In: LeaderAndIsr and StopReplica. Out: partitions that lead or follow, and an answer for each.
Always: one message at a time, in the order they came; an older word never undoes a newer one.
Not here: what a leader and a follower decide (replication/), fetching (fetchers.py), what
clients are told of partitions elsewhere (UpdateMetadata).

For the rooms around:
- `broker.replicas` is there in a cluster, None on a broker that stands alone.
- `Topic.partitions[i]` is there for every partition of the cluster. One that has no replica here
  is made by `absent_partition(name)` and told of its leader by `Partition.told(state)`, which
  never overrules what LeaderAndIsr said of a replica that is here.
- `watch(topic, lead, lost)` calls back when this broker begins and ends to lead partitions.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.partition import Partition
from barnabas.broker.peers import Peers
from barnabas.wire.codec import Message
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

Told = Callable[[Partition], None]


class Cluster(Protocol):
    """What is needed of the broker's place in the cluster (cluster.py)."""

    peers: Peers
    broker_epoch: int
    """Of this registration."""

    def admit(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> None:
        """Fenced, with STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH, unless it is for us and new."""
        ...

    async def ask_controller(self, request: Message, timeout_ms: int) -> Message:
        """Its answer; Retriable when it is not known or does not answer."""
        ...

    def rack_of(self, broker: int) -> str | None: ...


class Replicas:
    """All replicas of one broker."""

    def __init__(self, broker: "Broker", cluster: Cluster) -> None:
        self._broker = broker
        self._cluster = cluster

    async def lead_and_follow(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Begin to lead or to follow; logs that are not there yet are made."""
        raise NotImplementedError

    async def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop, and delete the logs where it says so."""
        raise NotImplementedError

    def watch(self, topic: str, lead: Told, lost: Told) -> None:
        """Tell of the partitions of a topic that this broker begins to lead, and ceases to."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop fetching; the logs are about to close."""
        raise NotImplementedError
