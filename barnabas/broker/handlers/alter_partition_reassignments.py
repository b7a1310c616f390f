"""AlterPartitionReassignments: the controller moves replicas, or stops moving them."""

from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse:
    assert broker.cluster is not None
    try:
        return await broker.cluster.controlling.alter_reassignments(request)
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(
            error_code=error.code, error_message=error.detail, responses=[]
        )
