"""DescribeCluster: the cluster's brokers."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message, since


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(ProtocolMessage):
    """Requests the brokers of the cluster. v1: brokers or controllers. v2: fenced brokers too."""

    include_cluster_authorized_operations: bool
    endpoint_type: Int8 = since(1, default=1)
    include_fenced_brokers: bool = since(2, default=False)


class DescribeClusterBroker(Struct):
    broker_id: Int32
    host: str
    port: Int32
    rack: str | None = None
    is_fenced: bool = since(2, default=False)


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(ProtocolMessage):
    """Brokers, controller and cluster id. v1: brokers or controllers. v2: which are fenced."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    endpoint_type: Int8 = since(1, default=1)
    cluster_id: str
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -0x8000_0000
