"""ControlledShutdown: from a broker to the controller: it is about to stop."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


@message(api_key=7, versions="3", flexible="3+")
class ControlledShutdownRequest(ProtocolMessage):
    """Asks the controller to move the leadership of this broker's partitions before it stops."""

    broker_id: Int32
    broker_epoch: Int64 = -1


class RemainingPartition(Struct):
    topic_name: str
    partition_index: Int32


@message(api_key=7, versions="3", flexible="3+")
class ControlledShutdownResponse(ProtocolMessage):
    """The partitions that it still leads, because no other replica can."""

    error_code: Int16
    remaining_partitions: list[RemainingPartition]
