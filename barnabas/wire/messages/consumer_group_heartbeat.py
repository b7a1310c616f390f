"""ConsumerGroupHeartbeat: membership in the new group protocol."""

from uuid import UUID

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message, since


class TopicPartitions(Struct):
    topic_id: UUID
    partitions: list[Int32]


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(ProtocolMessage):
    """A heartbeat of a member: its subscription and the partitions it owns.

    v1: subscription by regular expression.
    """

    group_id: str
    member_id: str
    member_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = since(1, default=None)
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(ProtocolMessage):
    """The member's epoch, and its assignment."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
