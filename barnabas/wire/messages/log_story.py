"""How a log is doing: an API of Barnabas' own, told to no client but its own (docs/adr/0010)."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


@message(api_key=20_001, versions="0", flexible="0+")
class LogStoryRequest(ProtocolMessage):
    """The logs of a topic's partitions, from the leader of each."""

    topic: str
    partitions: list[Int32]


class ToldReplica(Struct):
    """How far a replica has come, as its leader knows; -1: it has not been heard of yet.

    `behind_ms`: how long ago it last had all that there was; -1: never since this leader leads.
    """

    broker: Int32
    end: Int64 = -1
    behind_ms: Int64 = -1


class ToldLog(Struct):
    """`dirty_bytes` have not been compacted yet; -1 if the topic is not compacted.

    `cleaning`: for people: why it is or is not compacted now.
    `replicas`: of a broker in a cluster, the leader first.
    """

    partition: Int32
    replicas: list[ToldReplica]
    error_code: Int16 = 0
    bytes: Int64 = -1
    segments: Int32 = -1
    clean_bytes: Int64 = -1
    dirty_bytes: Int64 = -1
    cleaned_to: Int64 = -1
    cleaning: str = ""


@message(api_key=20_001, versions="0", flexible="0+")
class LogStoryResponse(ProtocolMessage):
    """One for each partition asked for."""

    logs: list[ToldLog]
