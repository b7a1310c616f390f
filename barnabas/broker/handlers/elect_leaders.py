"""ElectLeaders: the controller holds elections on request; a lone broker needs none."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.lone_replicas import Results, elect
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from barnabas.broker.cluster.membership import ClusterMembership
    from barnabas.broker.context import ClusterContext

PREFERRED, UNCLEAN = 0, 1
ERROR_SINCE = 1


async def handle(
    broker: "ClusterContext", request: ElectLeadersRequest, call: Call
) -> ElectLeadersResponse:
    names: list[TopicPartition] | None = None
    if request.topic_partitions is not None:
        names = [
            TopicPartition(topic.topic, index)
            for topic in request.topic_partitions
            for index in topic.partitions
        ]
    results: Results
    problem: KafkaError | None = None
    topics: dict[str, list[PartitionResult]] = {}
    try:
        if names == []:
            results = []
        elif broker.cluster is not None:
            results = await _elected(broker.cluster, request, names)
        else:
            results = _unchanged(broker, request, names)
            if names is None:  # as Kafka: each topic is listed, without the partitions that are led
                topics = {topic.name: [] for topic in broker.topics}
    except KafkaError as error:
        problem = error
        results = [(name, error) for name in names or ()]
    for name, answer in results:
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
            ReplicaElectionResult(topic=topic, partition_result=partitions)
            for topic, partitions in topics.items()
        ],
    )


async def _elected(
    cluster: "ClusterMembership", request: ElectLeadersRequest, names: list[TopicPartition] | None
) -> Results:
    from barnabas.controller.requested_elections import ElectionKind

    kind = ElectionKind.UNCLEAN if _is_unclean(request) else ElectionKind.PREFERRED
    answers = await cluster.controlling.ask(
        lambda machine, now: machine.elect(kind, names, now),
        wait_for_brokers_ms=request.timeout_ms,
    )
    return list(answers.items())


def _unchanged(
    broker: "ClusterContext", request: ElectLeadersRequest, names: list[TopicPartition] | None
) -> Results:
    unclean = _is_unclean(request)
    if names is not None:
        return elect(broker.id, broker.topics, names, unclean=unclean)
    every = [partition.name for topic in broker.topics for partition in topic.partitions]
    return [
        (name, error)
        for name, error in elect(broker.id, broker.topics, every, unclean=unclean)
        if error is None or error.code is not Code.ELECTION_NOT_NEEDED
    ]


def _is_unclean(request: ElectLeadersRequest) -> bool:
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"election type {request.election_type} is unknown; 0 elects preferred leaders,"
            " 1 elects any replica (unclean)",
        )
    return request.election_type == UNCLEAN
