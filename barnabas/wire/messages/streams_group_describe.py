"""StreamsGroupDescribe: state of streams groups."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, UInt16, message


@message(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeRequest(ProtocolMessage):
    """Which streams groups to describe."""

    group_ids: list[str]
    include_authorized_operations: bool


class KeyValue(Struct):
    key: str
    value: str


class TopicInfo(Struct):
    name: str
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


class Subtopology(Struct):
    subtopology_id: str
    source_topics: list[str]
    repartition_sink_topics: list[str]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


class Topology(Struct):
    epoch: Int32
    subtopologies: list[Subtopology] | None = None


class Endpoint(Struct):
    host: str
    port: UInt16


class TaskOffset(Struct):
    subtopology_id: str
    partition: Int32
    offset: Int64


class TaskIds(Struct):
    subtopology_id: str
    partitions: list[Int32]


class Assignment(Struct):
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


class Member(Struct):
    member_id: str
    member_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    topology_epoch: Int32
    process_id: str
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: bool


class DescribedGroup(Struct):
    error_code: Int16
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: Int32
    assignment_epoch: Int32
    topology: Topology | None = None
    members: list[Member]
    authorized_operations: Int32 = -0x8000_0000


@message(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeResponse(ProtocolMessage):
    """State, topology, members and tasks."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
