"""ReplicasFailed: a broker reports to the controller which replicas were on a failed disk."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.messages.replicas_failed import ReplicasFailedRequest, ReplicasFailedResponse

if TYPE_CHECKING:
    from barnabas.broker.context import ClusterContext


async def handle(
    broker: "ClusterContext", request: ReplicasFailedRequest, call: Call
) -> ReplicasFailedResponse:
    assert broker.cluster is not None
    names = [
        TopicPartition(topic.name, index) for topic in request.topics for index in topic.partitions
    ]
    try:
        await broker.cluster.controlling.ask(
            lambda machine, now: machine.replicas_failed(
                BrokerId(request.broker_id), request.broker_epoch, names, now
            )
        )
    except KafkaError as error:
        return ReplicasFailedResponse(error_code=error.code)
    return ReplicasFailedResponse(error_code=0)
