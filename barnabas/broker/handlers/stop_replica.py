"""StopReplica: the controller says which replicas this broker stops or deletes.

Not here: the work (broker/replicas/roles.py).
"""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from barnabas.broker.context import ClusterContext


async def handle(
    broker: "ClusterContext", request: StopReplicaRequest, call: Call
) -> StopReplicaResponse:
    assert broker.cluster is not None
    assert broker.replicas is not None
    try:
        await broker.cluster.known()
        return await broker.replicas.stop_replicas(request)
    except KafkaError as error:
        broker.refused("replica stop refused", call, error)
        return StopReplicaResponse(error_code=error.code, partition_errors=[])
