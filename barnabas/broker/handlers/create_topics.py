"""CreateTopics: checks and creates each topic separately."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.placement import (
    PARTITIONS_MAX,
    check_replicas,
    check_replication_factor,
)
from barnabas.config.alter import check_topic
from barnabas.config.describe import describe_topic
from barnabas.config.topic import TopicConfig
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import NO_TOPIC_ID, BrokerId, check_topic_name
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

DEFAULT = -1
CONFIGS_SINCE = 5
CLUSTER_METADATA = "__cluster_metadata"


class TopicPlan(NamedTuple):
    """A topic that can be created."""

    partitions: int
    factor: int
    overrides: dict[str, str]


async def handle(
    broker: "Broker", request: CreateTopicsRequest, call: Call
) -> CreateTopicsResponse:
    counts = Counter(topic.name for topic in request.topics)
    too_many = sum(_partitions(broker, topic) for topic in request.topics) > PARTITIONS_MAX
    results: dict[str, CreatableTopicResult] = {}
    for topic in request.topics:
        if topic.name in results:
            continue
        try:
            if counts[topic.name] > 1:
                raise _invalid(f"topic {topic.name[:300]!r} is in the request more than once")
            if too_many:
                raise InvalidRequest(
                    Code.POLICY_VIOLATION,
                    f"more than {PARTITIONS_MAX} partitions in one request; send several requests",
                )
            plan = _plan(broker, topic)
            id_ = NO_TOPIC_ID
            if request.validate_only:
                await asyncio.sleep(0)  # a request may have thousands: let other tasks run
            else:
                id_ = await _create(broker, topic, plan, request.timeout_ms)
        except KafkaError as error:
            if not isinstance(error, InvalidRequest):  # not the client's error
                broker.refused("topic not created", call, error, topic=topic.name[:300])
            results[topic.name] = CreatableTopicResult(
                name=topic.name, error_code=error.code, error_message=error.detail
            )
            continue
        results[topic.name] = CreatableTopicResult(
            name=topic.name,
            topic_id=id_,
            error_code=0,
            num_partitions=plan.partitions,
            replication_factor=plan.factor,
            configs=_configs(broker, plan) if call.version >= CONFIGS_SINCE else [],
        )
    return CreateTopicsResponse(topics=list(results.values()))


async def _create(
    broker: "Broker", topic: CreatableTopic, plan: TopicPlan, timeout_ms: int
) -> UUID:
    if broker.cluster is None:
        created = await broker.catalog.create_topic(topic.name, plan.partitions, plan.overrides)
        return created.id
    ordered = sorted(topic.assignments, key=lambda each: each.partition_index)
    placed = [[BrokerId(id_) for id_ in each.broker_ids] for each in ordered]
    return await broker.cluster.controlling.create_topic(
        topic.name,
        plan.partitions,
        plan.factor,
        plan.overrides,
        placed=placed or None,
        timeout_ms=timeout_ms,
    )


def _plan(broker: "Broker", topic: CreatableTopic) -> TopicPlan:
    if topic.name == CLUSTER_METADATA:
        raise _invalid(f"topic {CLUSTER_METADATA} is internal and cannot be created")
    broker.catalog.check_new(check_topic_name(topic.name))
    overrides = check_topic({config.name: config.value for config in topic.configs})
    TopicConfig(overrides, broker.layers)
    if topic.assignments:
        _check_assignments(broker, topic)
        factor = len(topic.assignments[0].broker_ids)
    else:
        factor = topic.replication_factor
        if factor == DEFAULT:
            factor = broker.config.default_replication_factor
        check_replication_factor(broker, factor)
        if topic.num_partitions < 1 and topic.num_partitions != DEFAULT:
            raise InvalidRequest(
                Code.INVALID_PARTITIONS,
                f"{topic.num_partitions} partitions: expected 1 or more, or -1 for the default",
            )
    return TopicPlan(_partitions(broker, topic), factor, overrides)


def _check_assignments(broker: "Broker", topic: CreatableTopic) -> None:
    if topic.replication_factor != DEFAULT:
        raise _invalid(
            f"replicas are assigned and the replication factor is {topic.replication_factor}:"
            " with an assignment it must be -1"
        )
    if topic.num_partitions != DEFAULT:
        raise _invalid(
            f"replicas are assigned and the number of partitions is {topic.num_partitions}:"
            " with an assignment it must be -1"
        )
    indexes = set()
    for assignment in topic.assignments:
        if assignment.partition_index in indexes:
            raise InvalidRequest(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"partition {assignment.partition_index} is assigned more than once",
            )
        indexes.add(assignment.partition_index)
        check_replicas(broker, assignment.partition_index, assignment.broker_ids)
    if indexes != set(range(len(indexes))):
        raise InvalidRequest(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"{len(indexes)} partitions are assigned: they must be numbered 0, 1 and so on",
        )


def _partitions(broker: "Broker", topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == DEFAULT:
        return broker.config.num_partitions
    return max(topic.num_partitions, 0)


def _configs(broker: "Broker", plan: TopicPlan) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=option.name,
            value=option.text,
            read_only=option.read_only,
            config_source=option.source,
            is_sensitive=option.sensitive,
        )
        for option in describe_topic(plan.overrides, broker.layers)
    ]


def _invalid(detail: str) -> KafkaError:
    return InvalidRequest(Code.INVALID_REQUEST, detail)
