"""DescribeReplicas: from the controller to a broker: the state of its replicas of partitions.

An API of Barnabas. The partitions have no leader;
the responses decide which replica leads (controller/proof.py).
"""

from uuid import UUID

from barnabas.wire.codec import Int8, Int16, Int32, Int64, ProtocolMessage, Struct, message


class AskedTopic(Struct):
    topic_name: str
    topic_id: UUID
    partitions: list[Int32]


@message(api_key=20_005, versions="0", flexible="0+")
class DescribeReplicasRequest(ProtocolMessage):
    """Partitions without a leader, before any other request about them."""

    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64
    topics: list[AskedTopic]


class DescribedReplica(Struct):
    """`copy` is controller/proof.py's Copy. `reason`: why it is not complete, if it is not."""

    partition_index: Int32
    copy: Int8
    clean: bool
    last_epoch: Int32
    end_offset: Int64
    reason: str


class DescribedTopic(Struct):
    topic_id: UUID
    replicas: list[DescribedReplica]


@message(api_key=20_005, versions="0", flexible="0+")
class DescribeReplicasResponse(ProtocolMessage):
    """The state of each replica, or the reason why it is not reported."""

    error_code: Int16
    topics: list[DescribedTopic]
