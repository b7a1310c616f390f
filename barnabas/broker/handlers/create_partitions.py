"""CreatePartitions: adds partitions to topics."""

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.placement import PARTITIONS_MAX, check_replicas
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import BrokerId
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.topic import Topic


async def handle(
    broker: "Broker", request: CreatePartitionsRequest, call: Call
) -> CreatePartitionsResponse:
    counts = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    for asked in request.topics:
        if asked.name in results:
            continue
        try:
            if counts[asked.name] > 1:
                raise InvalidRequest(
                    Code.INVALID_REQUEST,
                    f"topic {asked.name[:300]!r} is in the request more than once",
                )
            topic = _check(broker, asked)
            if not request.validate_only:
                await _add(broker, topic, asked, request.timeout_ms)
        except KafkaError as error:
            results[asked.name] = CreatePartitionsTopicResult(
                name=asked.name, error_code=error.code, error_message=error.detail
            )
            continue
        results[asked.name] = CreatePartitionsTopicResult(name=asked.name, error_code=0)
    return CreatePartitionsResponse(results=list(results.values()))


async def _add(
    broker: "Broker", topic: "Topic", asked: CreatePartitionsTopic, timeout_ms: int
) -> None:
    if broker.cluster is None:
        await broker.catalog.add_partitions(topic, asked.count)
        return
    placed = None
    if asked.assignments is not None:
        placed = [[BrokerId(id_) for id_ in each.broker_ids] for each in asked.assignments]
    await broker.cluster.controlling.add_partitions(
        topic.name, asked.count, placed=placed, timeout_ms=timeout_ms
    )


def _check(broker: "Broker", asked: CreatePartitionsTopic) -> "Topic":
    topic = broker.topics.existing(asked.name)
    have = len(topic.partitions)
    if asked.count <= have:
        raise InvalidRequest(
            Code.INVALID_PARTITIONS,
            f"topic {topic.name} has {have} partitions, and {asked.count} are requested; the number"
            " of partitions can only grow",
        )
    if asked.count > PARTITIONS_MAX:
        raise InvalidRequest(
            Code.INVALID_PARTITIONS,
            f"{asked.count} partitions are requested for topic {topic.name}; a topic can have at"
            f" most {PARTITIONS_MAX}",
        )
    if asked.assignments is None:
        return topic
    if len(asked.assignments) != asked.count - have:
        raise InvalidRequest(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"the request adds {asked.count - have} partitions and assigns replicas for"
            f" {len(asked.assignments)}; assign replicas for each new partition",
        )
    for index, assignment in enumerate(asked.assignments, have):
        check_replicas(broker, index, assignment.broker_ids)
    return topic
