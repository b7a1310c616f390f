"""AlterPartitionReassignments: the controller moves replicas, or cancels a reassignment."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.lone_replicas import reassign
from barnabas.model.errors import KafkaError
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import ClusterContext


async def handle(
    broker: "ClusterContext", request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse:
    wanted = [
        (
            TopicPartition(topic.name, each.partition_index),
            None if each.replicas is None else [BrokerId(id_) for id_ in each.replicas],
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    may_change = request.allow_replication_factor_change
    if broker.cluster is None:
        results = reassign(broker.id, broker.topics, wanted)
    else:
        from barnabas.controller.reassignment import ReassignmentRequest

        requested_moves = [ReassignmentRequest(name, replicas) for name, replicas in wanted]
        try:
            answers = await broker.cluster.controlling.ask(
                lambda machine, now: machine.reassign(requested_moves, may_change, now),
                wait_for_brokers_ms=request.timeout_ms,
            )
        except KafkaError as error:
            return AlterPartitionReassignmentsResponse(
                error_code=error.code, error_message=error.detail, responses=[]
            )
        results = list(answers.items())
    topics: dict[str, list[ReassignablePartitionResponse]] = {}
    for name, answer in results:
        topics.setdefault(name.topic, []).append(
            ReassignablePartitionResponse(
                partition_index=name.partition,
                error_code=answer.code if answer else 0,
                error_message=answer.detail if answer else None,
            )
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change,
        error_code=0,
        responses=[
            ReassignableTopicResponse(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )
