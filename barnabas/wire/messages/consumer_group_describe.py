"""ConsumerGroupDescribe: state of groups of the new protocol."""

from uuid import UUID

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message, since


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(ProtocolMessage):
    """State of groups of the new protocol. v1: as v0."""

    group_ids: list[str]
    include_authorized_operations: bool


class TopicPartitions(Struct):
    topic_id: UUID
    topic_name: str
    partitions: list[Int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class Member(Struct):
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Int8 = since(1, default=-1, ignorable=True)


class DescribedGroup(Struct):
    error_code: Int16
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: str
    members: list[Member]
    authorized_operations: Int32 = -0x8000_0000


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(ProtocolMessage):
    """State, members and assignments. v1: types of members."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
