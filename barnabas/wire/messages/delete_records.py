"""DeleteRecords: deletes the oldest records."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


class DeleteRecordsPartition(Struct):
    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Struct):
    name: str
    partitions: list[DeleteRecordsPartition]


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(ProtocolMessage):
    """Offsets before which records are deleted (-1: all). v2: flexible."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16


class DeleteRecordsTopicResult(Struct):
    name: str
    partitions: list[DeleteRecordsPartitionResult]


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(ProtocolMessage):
    """The new start of each partition. v2: flexible."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]
