"""CreateTopics: creates topics."""

from uuid import UUID

from barnabas.model.ids import NO_TOPIC_ID as NO_ID
from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message, since, tagged


class CreatableReplicaAssignment(Struct):
    partition_index: Int32
    broker_ids: list[Int32]


class CreatableTopicConfig(Struct):
    name: str
    value: str | None


class CreatableTopic(Struct):
    name: str
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest(ProtocolMessage):
    """Topics to create, by counts or by assignment.

    v4: counts may be -1, for the default. v5: flexible.
    """

    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: bool = False


class CreatableTopicConfigs(Struct):
    name: str
    value: str | None = None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool


class CreatableTopicResult(Struct):
    name: str
    topic_id: UUID = since(7, default=NO_ID, ignorable=True)
    error_code: Int16
    error_message: str | None = None
    topic_config_error_code: Int16 = tagged(0, since=5, default=0, ignorable=True)
    num_partitions: Int32 = since(5, default=-1, ignorable=True)
    replication_factor: Int16 = since(5, default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = since(5, default=[], ignorable=True)


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse(ProtocolMessage):
    """Which topics were created. v5: flexible, their counts and options. v7: their ids."""

    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult]
