"""ListOffsets: offsets by time."""

from barnabas.wire.codec import Int8, Int16, Int32, Int64, ProtocolMessage, Struct, message, since

# Special values in place of a time.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


class ListOffsetsPartition(Struct):
    partition_index: Int32
    current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
    timestamp: Int64


class ListOffsetsTopic(Struct):
    name: str
    partitions: list[ListOffsetsPartition]


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest(ProtocolMessage):
    """Which offset belongs to a timestamp (-1 end, -2 start, -3 latest timestamp and on).

    v2: isolation level. v4: leader epochs. v6: flexible. v7: -3. v8: -4 (local start).
    v9: -5 (end in tiers). v10: timeout. v11: -6 (first offset not yet in tiers).
    """

    replica_id: Int32
    isolation_level: Int8 = since(2, default=0)
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = since(10, default=0, ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = since(4, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str
    partitions: list[ListOffsetsPartitionResponse]


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(ProtocolMessage):
    """An offset per partition, with its timestamp.

    v2: throttle time. v4: leader epochs. v6: flexible.
    """

    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse]
