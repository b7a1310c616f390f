"""WriteTxnMarkers: marks the ends of transactions."""

from barnabas.wire.codec import Int8, Int16, Int32, Int64, ProtocolMessage, Struct, message, since


class WritableTxnMarkerTopic(Struct):
    name: str
    partition_indexes: list[Int32]


class WritableTxnMarker(Struct):
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = since(2, default=0, ignorable=True)


@message(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest(ProtocolMessage):
    """Ends of transactions, for the leaders of their partitions.

    v1: flexible. v2: transaction version.
    """

    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16


class WritableTxnMarkerTopicResult(Struct):
    name: str
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


@message(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(ProtocolMessage):
    """Which markers were written. v1: flexible."""

    markers: list[WritableTxnMarkerResult]
