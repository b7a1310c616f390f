"""DescribeLogs: the state of logs. An API of Barnabas for its own client (docs/adr/0010)."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


@message(api_key=20_001, versions="0", flexible="0+")
class DescribeLogsRequest(ProtocolMessage):
    """The logs of a topic's partitions, from the leader of each."""

    topic: str
    partitions: list[Int32]


class DescribedReplica(Struct):
    """The end offset of a replica, as its leader knows it; -1:

    it has not fetched yet. `behind_ms`: how long ago it had last caught up; -1: never since this
    leader was elected.
    """

    broker: Int32
    end: Int64 = -1
    behind_ms: Int64 = -1


class DescribedLog(Struct):
    """`dirty_bytes` have not been compacted yet; -1 if the topic is not compacted.

    `cleaning`: text for people: why it is or is not compacted now.
    `replicas`: of a broker in a cluster, the leader first.
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


@message(api_key=20_001, versions="0", flexible="0+")
class DescribeLogsResponse(ProtocolMessage):
    """One for each requested partition."""

    logs: list[DescribedLog]
