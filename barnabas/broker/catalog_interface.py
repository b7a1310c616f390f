"""What the rest of a broker needs of a catalog, and what is the same in all catalogs.

`Catalog` decides on a lone broker, `ClusterCatalog` asks the controller.
In: topics and their settings. Out: effective settings, or why a topic cannot be created.
Not here: where topics are stored (catalog.py, broker/cluster/catalog.py).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import UUID

from barnabas.broker.context import BrokerContext
from barnabas.broker.partition import Partition
from barnabas.broker.topic import Topic, Topics, metric_name
from barnabas.config.resolve import Layers
from barnabas.config.topic import TopicConfig
from barnabas.keeper.keeper import Keeper
from barnabas.log.config import LogConfig
from barnabas.model.errors import Code, InvalidRequest

if TYPE_CHECKING:
    from barnabas.broker.cluster.membership import ClusterMembership
    from barnabas.broker.requests.recompression import Recompression

T = TypeVar("T")

Change = Callable[[Mapping[str, str]], dict[str, str]]
"""Computes new settings from the current ones, or raises a KafkaError."""


class AnyCatalog(Protocol):
    """The catalog of a lone broker, or of a broker in a cluster (broker/cluster/catalog.py)."""

    @property
    def dynamic(self) -> Mapping[int | None, Mapping[str, str]]:
        """Settings made by requests, of one broker by its id, or of all brokers (None)."""
        ...

    @property
    def entities(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        """Settings of groups, users, delegation tokens and subscriptions to client metrics, by kind
        and name."""
        ...

    @property
    def deleted_topic_offsets(self) -> Mapping[str, tuple[UUID, Mapping[int, int]]]:
        """Deleted topics: for each group shard, the end offset below which it may have their
        offsets."""
        ...

    def log_config_of(self, topic: str) -> LogConfig: ...

    def layers(self, static: Mapping[str, str]) -> Layers: ...

    def apply(self, topic: Topic) -> None: ...

    def check_new(self, name: str) -> None: ...

    async def create_topic(
        self, name: str, partitions: int, overrides: Mapping[str, str]
    ) -> Topic: ...

    async def delete_topic(self, topic: Topic) -> None: ...

    async def add_partitions(self, topic: Topic, total: int) -> None: ...

    async def configure_topic(self, topic: Topic, change: Change) -> None: ...

    async def configure_broker(self, broker: int | None, change: Change) -> None: ...

    async def configure_entity(self, kind: str, name: str, change: Change) -> None: ...

    async def new_producer_id(self) -> int: ...

    async def run(self, call: Callable[[Keeper], T]) -> T:
        """A call of the keeper, in its thread."""
        ...

    async def offsets_forgotten(self, shard: int, ends: Mapping[str, int]) -> None: ...

    def close(self) -> None: ...


class TopicsContext(BrokerContext, Protocol):
    """What applying a topic's settings needs of the broker."""

    layers: Layers
    topics: Topics
    cluster: "ClusterMembership | None"
    recompression: "Recompression | None"


def check_new_topic(topics: Topics, name: str) -> None:
    """TOPIC_ALREADY_EXISTS, or INVALID_TOPIC if two topics would have the same name in metrics."""
    if topics.get(name) is not None:
        raise InvalidRequest(Code.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    alike = topics.by_metric(metric_name(name))
    if alike is not None:
        raise InvalidRequest(
            Code.INVALID_TOPIC_EXCEPTION,
            f"topic {name!r} differs from {alike.name!r} only in '.' and '_',"
            " which are the same in metrics: choose another name",
        )


def apply_config(broker: TopicsContext, topic: Topic) -> None:
    """Apply a topic's configuration."""
    topic.config = TopicConfig(topic.overrides, broker.layers)
    set_codec(broker, topic)
    config = log_config(topic.config, broker)
    for partition in topic.partitions:
        partition.log.config = config
        configure(broker, partition, topic.config)


def configure(broker: BrokerContext, partition: Partition, config: TopicConfig) -> None:
    """Apply a topic's configuration to one of its partitions."""
    partition.configure(config)
    delay_ms = config.barnabas_delivery_delay_ms
    if delay_ms or partition.delay is not None:  # else nothing about it is imported
        from barnabas.broker.delivery_delay import set_delay

        set_delay(partition, delay_ms, broker.clock, broker.loop)


def set_codec(broker: TopicsContext, topic: Topic) -> None:
    kind = topic.config.compression_type
    if kind == "producer" or topic.internal:  # the broker compresses its own records as it likes
        topic.codec = None
        return
    from barnabas.broker.requests.recompression import Recompression, codec_of

    topic.codec = codec_of(kind)
    if broker.recompression is None:
        broker.recompression = Recompression(broker.topics, broker.loop)


def _segment_ms(config: TopicConfig) -> int:
    """Records that must be compacted in time must leave the active segment in time."""
    if "compact" in config.cleanup_policy:
        return min(config.segment_ms, config.max_compaction_lag_ms)
    return config.segment_ms


def _table_offsets(config: TopicConfig) -> dict[int, int] | None:
    """None: retention does not wait for the table of the topic."""
    if not config.lake_retention_wait:
        return None
    pairs = (word.partition(":") for word in config.lake_offsets)
    return {int(partition): int(offset) for partition, _, offset in pairs}


def log_config(config: TopicConfig, broker: TopicsContext) -> LogConfig:
    """What a log needs of its topic's configuration."""
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=_segment_ms(config),
        segment_jitter_ms=config.segment_jitter_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        max_message_bytes=config.max_message_bytes,
        timestamp_type="append" if config.message_timestamp_type == "LogAppendTime" else "create",
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        producer_id_expiration_ms=broker.config.producer_id_expiration_ms,
        deletes="delete" in config.cleanup_policy,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        table_offsets=_table_offsets(config),
        waiting_bytes_max=config.lake_retention_wait_bytes,
        file_delete_delay_ms=config.file_delete_delay_ms,
        compacted="compact" in config.cleanup_policy,
        copied=broker.cluster is not None,
        delete_retention_ms=config.delete_retention_ms,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
    )
