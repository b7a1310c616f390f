"""ListPartitionReassignments: the reassignments in progress."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from barnabas.broker.context import ClusterContext


async def handle(
    broker: "ClusterContext", request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    if broker.cluster is None:  # a lone broker cannot move replicas
        return ListPartitionReassignmentsResponse(error_code=0, topics=[])
    asked = None
    if request.topics is not None:
        asked = {topic.name: topic.partition_indexes for topic in request.topics}
    try:
        moving = broker.cluster.controlling.machine.moving(asked)
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(
            error_code=error.code, error_message=error.detail, topics=[]
        )
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for name, assignment in moving.items():
        topics.setdefault(name.topic, []).append(
            OngoingPartitionReassignment(
                partition_index=name.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
    return ListPartitionReassignmentsResponse(
        error_code=0,
        topics=[
            OngoingTopicReassignment(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )
