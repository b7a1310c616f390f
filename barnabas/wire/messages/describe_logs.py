"""DescribeLogs: the state of logs. An API of Barnabas for its own client (docs/adr/0010)."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since


@message(api_key=20_001, versions="0-1", flexible="0+")
class DescribeLogsRequest(ProtocolMessage):
    """The logs of a topic's partitions, from the leader of each.

    v1: also the newest segments, at most `segments_max` of all partitions together.
    """

    topic: str
    partitions: list[Int32]
    segments_max: Int32 = since(1, default=0, ignorable=True)


class DescribedReplica(Struct):
    """The end offset of a replica, as its leader knows it; -1:

    it has not fetched yet. `behind_ms`: how long ago it had last caught up; -1: never since this
    leader was elected.
    """

    broker: Int32
    end: Int64 = -1
    behind_ms: Int64 = -1


class DescribedSegment(Struct):
    """The offsets from `base_offset` to before `next_offset`, in files of these sizes.

    `newest_ms`: the largest timestamp; -1: none, or not looked up yet. `created_ms`: when this
    process created it; 0: before this process.
    """

    base_offset: Int64
    next_offset: Int64
    bytes: Int64
    index_entries: Int32
    newest_ms: Int64
    created_ms: Int64


class DescribedLog(Struct):
    """`dirty_bytes` have not been compacted yet; -1 if the topic is not compacted.

    `cleaning`: text for people: why it is or is not compacted now.
    `replicas`: of a broker in a cluster, the leader first.
    v1: `segment_list`: the newest segments, the active one last.
    """

    partition: Int32
    replicas: list[DescribedReplica]
    error_code: Int16 = 0
    bytes: Int64 = -1
    segments: Int32 = -1
    clean_bytes: Int64 = -1
    dirty_bytes: Int64 = -1
    cleaned_to: Int64 = -1
    cleaning: str = ""
    segment_list: list[DescribedSegment] = since(1, default=[], ignorable=True)


@message(api_key=20_001, versions="0-1", flexible="0+")
class DescribeLogsResponse(ProtocolMessage):
    """One for each requested partition."""

    logs: list[DescribedLog]
