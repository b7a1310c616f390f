"""StreamsGroupHeartbeat: membership in a streams group."""

from barnabas.wire.codec import Int8, Int16, Int32, Int64, ProtocolMessage, Struct, UInt16, message


class KeyValue(Struct):
    key: str
    value: str


class TopicInfo(Struct):
    name: str
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


class CopartitionGroup(Struct):
    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


class Subtopology(Struct):
    subtopology_id: str
    source_topics: list[str]
    source_topic_regex: list[str]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[str]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


class Topology(Struct):
    epoch: Int32
    subtopologies: list[Subtopology]


class TaskIds(Struct):
    subtopology_id: str
    partitions: list[Int32]


class Endpoint(Struct):
    host: str
    port: UInt16


class TaskOffset(Struct):
    subtopology_id: str
    partition: Int32
    offset: Int64


@message(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest(ProtocolMessage):
    """A heartbeat of a member: its topology, and the tasks that it owns."""

    group_id: str
    member_id: str
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


class Status(Struct):
    status_code: Int8
    status_detail: str


class TopicPartition(Struct):
    topic: str
    partitions: list[Int32]


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


@message(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse(ProtocolMessage):
    """The member's epoch, its tasks, and what is wrong with the group."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    member_id: str
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag: Int32
    task_offset_interval_ms: Int32
    status: list[Status] | None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
