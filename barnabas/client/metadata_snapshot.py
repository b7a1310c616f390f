"""Which broker leads which partition: the cluster as one Metadata response describes it.

In: MetadataResponse. Out: brokers, topics, leaders.
Always: a snapshot is never changed, only replaced; where `NewestLeaders` is used, a partition never
goes back to a leader of an older epoch.
Not here: the cache that holds the latest snapshot, and when it is replaced (cluster.py).
"""

from typing import NamedTuple
from uuid import UUID

from barnabas.client.errors import error_of
from barnabas.config.kinds import Address
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.wire.messages.metadata import MetadataResponse


class BrokerMetadata(NamedTuple):
    id: int
    address: Address
    rack: str | None


class PartitionMetadata(NamedTuple):
    number: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]


class TopicMetadata(NamedTuple):
    name: str
    id: UUID
    is_internal: bool
    partitions: list[PartitionMetadata]


class NewestLeaders:
    """The newest leader of each partition that any broker has named.

    A broker that does not know a newer leader names the old one, which lacks records that the
    newer one has: it would answer a fetch with OFFSET_OUT_OF_RANGE, and does not know the sequence
    numbers of a producer (KIP-320). A topic that was created again has another id, and low epochs.
    """

    def __init__(self) -> None:
        self._partitions: dict[tuple[str, UUID, int], PartitionMetadata] = {}

    def newest(self, topic: str, topic_id: UUID, named: PartitionMetadata) -> PartitionMetadata:
        if topic_id == NO_TOPIC_ID:
            return named
        place = (topic, topic_id, named.number)
        known = self._partitions.get(place)
        if known is not None and 0 <= named.leader_epoch < known.leader_epoch:
            return known
        self._partitions[place] = named
        return named


class MetadataSnapshot:
    """The cluster as one broker saw it; its leaders, as the newest response named them."""

    def __init__(self, response: MetadataResponse, leaders: NewestLeaders | None = None) -> None:
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            broker.node_id: BrokerMetadata(
                broker.node_id, Address(broker.host, broker.port), broker.rack
            )
            for broker in response.brokers
        }
        self.topics: dict[str, TopicMetadata] = {}
        self.errors: dict[str, KafkaError] = {}
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code:
                self.errors[name] = error_of(topic.error_code, about=f"topic {name!r}")
                continue
            partitions = [
                PartitionMetadata(
                    p.partition_index,
                    p.leader_id,
                    p.leader_epoch,
                    p.replica_nodes,
                    p.isr_nodes,
                    p.offline_replicas,
                )
                for p in topic.partitions
            ]
            if leaders is not None:
                partitions = [leaders.newest(name, topic.topic_id, one) for one in partitions]
            partitions.sort()
            self.topics[name] = TopicMetadata(name, topic.topic_id, topic.is_internal, partitions)

    def shows(self, name: str) -> bool:
        """Was the topic asked for? It may still not exist."""
        return name in self.topics or name in self.errors

    def topic(self, name: str) -> TopicMetadata:
        if found := self.topics.get(name):
            return found
        if problem := self.errors.get(name):
            raise problem
        raise InvalidRequest(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")

    def partition(self, at: TopicPartition) -> PartitionMetadata:
        partitions = self.topic(at.topic).partitions
        if 0 <= at.partition < len(partitions):  # where it nearly always is
            partition = partitions[at.partition]
            if partition.number == at.partition:
                return partition
        for partition in partitions:
            if partition.number == at.partition:
                return partition
        count = len(partitions)
        raise InvalidRequest(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {at.topic!r} has no partition {at.partition}: it has {count}",
        )

    def leader(self, at: TopicPartition) -> int:
        leader = self.partition(at).leader
        if leader not in self.brokers:
            raise Retriable(Code.LEADER_NOT_AVAILABLE, f"{at} has no leader at the moment")
        return leader

    def name_of(self, topic_id: UUID) -> str:
        for topic in self.topics.values():
            if topic.id == topic_id:
                return topic.name
        return ""
