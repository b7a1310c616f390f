"""ElectLeaders: the controller elects anew, on request."""

from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.controller.elections import Kind
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

ERROR_SINCE = 1


async def handle(
    broker: "Broker", request: ElectLeadersRequest, call: Call
) -> ElectLeadersResponse:
    assert broker.cluster is not None
    names = None
    if request.topic_partitions is not None:
        names = [
            TopicPartition(topic.topic, index)
            for topic in request.topic_partitions
            for index in topic.partitions
        ]
    answers: dict[TopicPartition, KafkaError | None]
    problem: KafkaError | None = None
    try:
        kind = _kind(request.election_type)
        answers = await broker.cluster.controlling.ask(
            lambda machine, now: machine.elect(kind, names, now),
            told_within_ms=request.timeout_ms,
        )
    except KafkaError as error:
        problem = error
        answers = dict.fromkeys(names or (), error)
    topics: dict[str, list[PartitionResult]] = {}
    for name, answer in answers.items():
        topics.setdefault(name.topic, []).append(
            PartitionResult(
                partition_id=name.partition,
                error_code=answer.code if answer else 0,
                error_message=answer.detail if answer else None,
            )
        )
    return ElectLeadersResponse(
        error_code=problem.code if problem is not None and call.version >= ERROR_SINCE else 0,
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=results)
            for topic, results in topics.items()
        ],
    )


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"election type {number}: 0 is for preferred leaders, 1 for unclean elections",
        ) from None
