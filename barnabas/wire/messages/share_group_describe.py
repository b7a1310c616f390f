"""ShareGroupDescribe: state of share groups."""

from uuid import UUID

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message


@message(api_key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest(ProtocolMessage):
    """Which share groups to describe."""

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
    rack_id: str | None = None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    assignment: Assignment


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


@message(api_key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse(ProtocolMessage):
    """State, members and assignments."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
