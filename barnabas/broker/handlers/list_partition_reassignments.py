"""ListPartitionReassignments: the moves of replicas that are under way."""

from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    assert broker.cluster is not None
    try:
        return await broker.cluster.controlling.list_reassignments(request)
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(
            error_code=error.code, error_message=error.detail, topics=[]
        )
