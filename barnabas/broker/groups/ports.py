"""What a shard of groups sees of its broker: the topics, the settings.

In: the broker's topics, its configuration. Out: what coordinators/ asks for.
Not here: the log under a shard (broker/shards/journal.py).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.assignment.group import AssignableTopic as SeenTopic
from barnabas.config.broker import BrokerConfig
from barnabas.config.group import GroupConfig
from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.limits import GroupLimits

if TYPE_CHECKING:
    from barnabas.broker.context import ClusterContext
    from barnabas.broker.net.dispatch import Call

# Before the first generation of a group: members that start together arrive within moments. If one
# of them is alone in a generation, it learns about the others only at its next heartbeat, seconds
# later.
LULL_MS = 100


class TopicsSeen:
    """The broker's topics, as the coordinator needs them."""

    __slots__ = ("_broker", "_topics")

    def __init__(self, broker: "ClusterContext") -> None:
        self._broker = broker
        self._topics = broker.topics

    def find(self, name: str) -> SeenTopic | None:
        """In a cluster, not before the controller has listed all partitions of the topic: groups
        would assign a part of it, or report a wrong number of partitions."""
        topic = self._topics.get(name)
        if topic is None:
            return None
        cluster = self._broker.cluster
        listed = len(topic.partitions) if cluster is None else cluster.view.listed(topic)
        return SeenTopic(listed, topic.id) if listed else None

    def name_of(self, topic_id: UUID) -> str | None:
        topic = self._topics.by_id(topic_id)
        return None if topic is None else topic.name

    def names(self) -> list[str]:
        return [topic.name for topic in self._topics]


def caller_of(call: "Call", token: object) -> Caller:
    host, peer = f"/{call.connection.host}", call.connection.peer
    return Caller(token, call.version, call.client_id, host, peer, call.may_describe)


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
        share_session_timeout_ms=config.group_share_session_timeout_ms,
        share_heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        share_assignment_interval_ms=config.group_share_assignment_interval_ms,
        share_members_max=config.group_share_max_size,
        streams_session_timeout_ms=config.group_streams_session_timeout_ms,
        streams_heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
        streams_assignment_interval_ms=config.group_streams_assignment_interval_ms,
        streams_members_max=config.group_streams_max_size,
        streams_num_standby_replicas=config.group_streams_num_standby_replicas,
        streams_initial_rebalance_delay_ms=config.group_streams_initial_rebalance_delay_ms,
        streams_join_pause_ms=LULL_MS,
        groups=groups,
    )


def group_limits(settings: Mapping[str, str]) -> dict[str, int]:
    """The fields of GroupLimits that a group's own settings replace."""
    config = GroupConfig(settings)
    values = {
        "consumer.session.timeout.ms": config.consumer_session_timeout_ms,
        "consumer.heartbeat.interval.ms": config.consumer_heartbeat_interval_ms,
        "consumer.assignment.interval.ms": config.consumer_assignment_interval_ms,
        "share.session.timeout.ms": config.share_session_timeout_ms,
        "share.heartbeat.interval.ms": config.share_heartbeat_interval_ms,
        "share.assignment.interval.ms": config.share_assignment_interval_ms,
        "streams.session.timeout.ms": config.streams_session_timeout_ms,
        "streams.heartbeat.interval.ms": config.streams_heartbeat_interval_ms,
        "streams.assignment.interval.ms": config.streams_assignment_interval_ms,
        "streams.initial.rebalance.delay.ms": config.streams_initial_rebalance_delay_ms,
        "streams.num.standby.replicas": config.streams_num_standby_replicas,
    }
    return {name.replace(".", "_"): value for name, value in values.items() if name in settings}
