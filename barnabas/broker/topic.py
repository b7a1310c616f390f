"""Topics in memory: by name, by id, and their partitions."""

from collections.abc import Iterator, Mapping
from typing import cast
from uuid import UUID

from barnabas.broker.no_log import NoLog
from barnabas.broker.partition import Partition
from barnabas.broker.partition_errors import not_served
from barnabas.broker.role import Role
from barnabas.config.topic import TopicConfig
from barnabas.log.log import Log
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import BrokerId, TopicPartition, check_topic_name
from barnabas.wire.compression import Codec

PARTITIONS_MAX = 200_000  # of one topic: a larger number in a request is refused
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC)


class Topic:
    """A name, an id that no other topic ever has, its partitions, and its configuration."""

    __slots__ = ("codec", "config", "id", "internal", "name", "overrides", "partitions")

    def __init__(
        self, name: str, id_: UUID, config: TopicConfig, overrides: Mapping[str, str]
    ) -> None:
        self.name = name
        self.id = id_
        self.internal = name in INTERNAL
        self.config = config
        self.codec: Codec | None = None  # of stored batches; None: as the producer sent them
        self.overrides = dict(overrides)  # as they were set, as text
        self.partitions: list[Partition] = []

    def ensure_partition(self, index: int) -> Partition:
        """The partition of this number, on whatever brokers it is; creates it and those below
        it."""
        if not 0 <= index < PARTITIONS_MAX:
            raise InvalidRequest(
                Code.INVALID_PARTITIONS,
                f"partition {index} of topic {self.name}: expected 0 to {PARTITIONS_MAX - 1}",
            )
        for missing in range(len(self.partitions), index + 1):
            self.partitions.append(absent_partition(TopicPartition(self.name, missing)))
        return self.partitions[index]

    def partition(self, index: int) -> Partition:
        """A partition led here; NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR if it is not."""
        if 0 <= index < len(self.partitions):
            found = self.partitions[index]
            if found.role is not Role.LEADER:
                raise not_served(found)
            return found
        raise self._no_partition(index)

    def replica(self, index: int) -> Partition:
        """A partition that can be read here: led, or followed."""
        if 0 <= index < len(self.partitions):
            found = self.partitions[index]
            if found.role is not Role.LEADER and found.following is None:
                raise not_served(found)
            return found
        raise self._no_partition(index)

    def _no_partition(self, index: int) -> Retriable:
        return Retriable(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {self.name} has {len(self.partitions)} partitions, no partition {index}",
        )


class Topics:
    """All topics of the cluster, ordered by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._by_metric: dict[str, Topic] = {}
        self.get = self._by_name.get
        self.by_id = self._by_id.get
        self.by_metric = self._by_metric.get

    def __iter__(self) -> Iterator[Topic]:
        return iter([self._by_name[name] for name in sorted(self._by_name)])

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._by_metric[metric_name(topic.name)] = topic

    def remove(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        del self._by_metric[metric_name(topic.name)]

    def existing(self, name: str) -> Topic:
        topic = self._by_name.get(name)
        if topic is None:
            raise Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name[:300]!r}")
        return topic


def metric_name(topic: str) -> str:
    """The name of a topic in metrics: names that differ only in '.' and '_' would be the same."""
    return topic.replace(".", "_")


def why_missing(name: str) -> Code:
    """The error for an unknown name: no topic can have it, or none has it now."""
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return Code.UNKNOWN_TOPIC_OR_PARTITION


def absent_partition(name: TopicPartition) -> Partition:
    """A partition without a replica on this broker; `update_metadata` sets its leader."""
    partition = Partition(name, cast(Log, NoLog()), None, BrokerId(-1), Role.ABSENT)
    partition.replicas, partition.in_sync = [], []
    return partition
