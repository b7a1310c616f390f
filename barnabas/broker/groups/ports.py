"""What a shard of groups sees of its broker: the log under it, the topics, the settings.

In: a partition, the broker's topics, its configuration. Out: what coordinators/ asks for.
Always: nothing is written to a partition that this broker does not lead.
Not here: which shards this broker has (coordination.py).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.assignment.group import AssignableTopic as SeenTopic
from barnabas.broker.partition import ACKS_ALL, Partition
from barnabas.broker.partition_errors import not_served
from barnabas.broker.role import Role
from barnabas.config.broker import BrokerConfig
from barnabas.config.group import GroupConfig
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.ports import TransactionMarker

if TYPE_CHECKING:
    from barnabas.broker.topic import Topics

# Before the first generation of a group: members that start together arrive within moments. If one
# of them is alone in a generation, it learns about the others only at its next heartbeat, seconds
# later.
LULL_MS = 100


class PartitionJournal:
    """The log under a shard; what it appends is committed when its replicas have it."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    @property
    def high_watermark(self) -> int:
        return self._partition.log.high_watermark

    def append(self, batch: bytearray, wall_ms: int) -> int:
        partition = self._partition
        if partition.role is not Role.LEADER:  # another broker leads since a moment ago
            raise not_served(partition)
        return partition.append(memoryview(batch), ACKS_ALL, wall_ms, ours=True).last_offset

    def append_transactional(self, batch: bytearray, guard: object, wall_ms: int) -> int:
        from barnabas.log.transactions.verification import VerificationGuard

        partition = self._partition
        if partition.role is not Role.LEADER:
            raise not_served(partition)
        known = guard if isinstance(guard, VerificationGuard) else None
        view = memoryview(batch)
        return partition.append(view, ACKS_ALL, wall_ms, ours=True, guard=known).last_offset

    def append_marker(self, marker: TransactionMarker, wall_ms: int) -> int:
        from barnabas.broker.transactions.marker_append import append_marker
        from barnabas.wire.control_records import EndMarker

        partition = self._partition
        if partition.role is not Role.LEADER:
            raise not_served(partition)
        producer_id, epoch, commit, coordinator_epoch, version = marker
        end = EndMarker(commit, coordinator_epoch)
        return append_marker(partition, producer_id, epoch, end, version, wall_ms).last_offset


class TopicsSeen:
    """The broker's topics, as the coordinator needs them."""

    __slots__ = ("_topics",)

    def __init__(self, topics: "Topics") -> None:
        self._topics = topics

    def find(self, name: str) -> SeenTopic | None:
        topic = self._topics.get(name)
        return None if topic is None else SeenTopic(len(topic.partitions), topic.id)

    def name_of(self, topic_id: UUID) -> str | None:
        topic = self._topics.by_id(topic_id)
        return None if topic is None else topic.name

    def names(self) -> list[str]:
        return [topic.name for topic in self._topics]


def limits(config: BrokerConfig, groups: Mapping[str, Mapping[str, int]]) -> GroupLimits:
    """`groups`: what settings of single groups replace (`group_limits`)."""
    return GroupLimits(
        session_timeout_ms_min=config.group_min_session_timeout_ms,
        session_timeout_ms_max=config.group_max_session_timeout_ms,
        members_max=config.group_max_size,
        initial_rebalance_delay_ms=max(config.group_initial_rebalance_delay_ms, LULL_MS),
        initial_rebalance_pause_ms=LULL_MS,
        offset_metadata_chars_max=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_members_max=config.group_consumer_max_size,
        consumer_assignors=config.group_consumer_assignors or ("uniform",),
        consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        consumer_join_pause_ms=LULL_MS,
        consumer_upgrade=config.group_consumer_migration_policy in ("bidirectional", "upgrade"),
        consumer_downgrade=config.group_consumer_migration_policy in ("bidirectional", "downgrade"),
        groups=groups,
    )


def group_limits(settings: Mapping[str, str]) -> dict[str, int]:
    """The fields of GroupLimits that a group's own settings replace."""
    config = GroupConfig(settings)
    values = {
        "consumer.session.timeout.ms": config.consumer_session_timeout_ms,
        "consumer.heartbeat.interval.ms": config.consumer_heartbeat_interval_ms,
        "consumer.assignment.interval.ms": config.consumer_assignment_interval_ms,
    }
    return {name.replace(".", "_"): value for name, value in values.items() if name in settings}
