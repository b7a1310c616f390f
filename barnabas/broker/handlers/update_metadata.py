"""UpdateMetadata: the controller sends all topics, partitions and live brokers.

Not here: the work (broker/cluster/membership.py, broker/cluster/metadata.py).
"""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from barnabas.broker.context import ClusterContext


async def handle(
    broker: "ClusterContext", request: UpdateMetadataRequest, call: Call
) -> UpdateMetadataResponse:
    assert broker.cluster is not None
    try:
        await broker.cluster.update(request)
    except KafkaError as error:
        broker.refused("cluster metadata refused", call, error)
        return UpdateMetadataResponse(error_code=error.code)
    return UpdateMetadataResponse(error_code=0)
