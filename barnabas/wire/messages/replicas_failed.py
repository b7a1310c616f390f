"""ReplicasFailed, an API of Barnabas: from a broker to the controller: a disk failed."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


class FailedTopic(Struct):
    name: str
    partitions: list[Int32]


@message(api_key=20_003, versions="0", flexible="0+")
class ReplicasFailedRequest(ProtocolMessage):
    """They cannot be reached until the broker has been started again."""

    broker_id: Int32
    broker_epoch: Int64
    topics: list[FailedTopic]


@message(api_key=20_003, versions="0", flexible="0+")
class ReplicasFailedResponse(ProtocolMessage):
    """Taken note of, or why not."""

    error_code: Int16
