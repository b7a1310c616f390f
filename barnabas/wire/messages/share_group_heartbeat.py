"""ShareGroupHeartbeat: membership in a share group."""

from uuid import UUID

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest(ProtocolMessage):
    """A heartbeat of a member, with its subscription when it joins or changes it."""

    group_id: str
    member_id: str
    member_epoch: Int32
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


class TopicPartitions(Struct):
    topic_id: UUID
    partitions: list[Int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse(ProtocolMessage):
    """The member's epoch, and its assignment if that changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
