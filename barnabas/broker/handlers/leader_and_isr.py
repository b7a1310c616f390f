"""LeaderAndIsr: the controller says which partitions this broker leads and follows.

Not here: the work (broker/replicas/roles.py).
"""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

if TYPE_CHECKING:
    from barnabas.broker.context import ClusterContext


async def handle(
    broker: "ClusterContext", request: LeaderAndIsrRequest, call: Call
) -> LeaderAndIsrResponse:
    assert broker.cluster is not None
    assert broker.replicas is not None
    try:
        await broker.cluster.known()
        return await broker.replicas.lead_and_follow(request)
    except KafkaError as error:
        broker.refused("leadership refused", call, error)
        return LeaderAndIsrResponse(error_code=error.code, topics=[])
