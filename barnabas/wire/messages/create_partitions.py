"""CreatePartitions: adds partitions to topics."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32]


class CreatePartitionsTopic(Struct):
    name: str
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(ProtocolMessage):
    """Partition counts to grow topics to. v2: flexible. v3: as v2."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: bool


class CreatePartitionsTopicResult(Struct):
    name: str
    error_code: Int16
    error_message: str | None = None


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(ProtocolMessage):
    """Which topics grew. v2: flexible."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]
