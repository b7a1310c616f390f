"""DescribeCluster: brokers, controller and cluster id."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from barnabas.model.errors import Code
from barnabas.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

BROKERS = 1
CONTROLLERS = 2


def handle(
    broker: "Broker", request: DescribeClusterRequest, call: Call
) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _refused(request.endpoint_type)
    return DescribeClusterResponse(
        error_code=0,
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.nodes(call.connection.listener)
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _refused(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        code = Code.MISMATCHED_ENDPOINT_TYPE
        message = "this endpoint is a broker's, not a controller's: ask for brokers (1)"
    else:
        code = Code.UNSUPPORTED_ENDPOINT_TYPE
        message = f"endpoint type {endpoint_type} is unknown; expected 1 (brokers)"
    return DescribeClusterResponse(
        error_code=code, error_message=message, cluster_id="", brokers=[]
    )
