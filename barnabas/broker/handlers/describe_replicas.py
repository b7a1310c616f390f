"""DescribeReplicas: the controller asks for this broker's replicas of partitions without a
leader."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.replicas.logs import describe
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.describe_replicas import (
    DescribedReplica,
    DescribedTopic,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import ReplicasContext


async def handle(
    broker: "ReplicasContext", request: DescribeReplicasRequest, call: Call
) -> DescribeReplicasResponse:
    cluster = broker.cluster
    assert cluster is not None
    try:
        await cluster.known()
        cluster.admit(request.controller_id, request.controller_epoch, request.broker_epoch)
    except KafkaError as error:
        broker.refused("report refused", call, error)
        return DescribeReplicasResponse(error_code=error.code, topics=[])
    assert broker.replicas is not None
    await broker.replicas.incomplete.marks_written(
        TopicPartition(topic.topic_name, index)
        for topic in request.topics
        for index in topic.partitions
    )
    return DescribeReplicasResponse(
        error_code=0,
        topics=[
            DescribedTopic(
                topic_id=topic.topic_id,
                replicas=[
                    DescribedReplica(
                        partition_index=index,
                        **describe(
                            broker, TopicPartition(topic.topic_name, index), topic.topic_id
                        )._asdict(),
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
