"""OffsetForLeaderEpoch: ends of leader epochs."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since


class OffsetForLeaderPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct):
    topic: str
    partitions: list[OffsetForLeaderPartition]


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest(ProtocolMessage):
    """Where an epoch ended, so that logs which diverged can be cut.

    v2: current epoch. v3: replica id. v4: flexible.
    """

    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: str
    partitions: list[EpochEndOffset]


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(ProtocolMessage):
    """The end of the largest epoch that is not above the one asked for. v4: flexible."""

    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult]
