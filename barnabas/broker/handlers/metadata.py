"""Metadata: brokers, topics and leaders; missing topics may be created.

Always: each requested topic is answered once; a topic created here is ready when the reply is sent.
"""

from collections.abc import Container, Coroutine, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas.broker.cluster_member import ClusterMember
from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.authorized_operations import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
)
from barnabas.broker.requests.placement import check_replication_factor
from barnabas.broker.topic import INTERNAL, Topic, why_missing
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import NO_TOPIC_ID, check_topic_name
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

IDS_ASKED_SINCE = 12
NO_LEADER = -1
CREATED_MAX = 100  # per request; the others are created when they are requested again
_NONE_FAILED: Mapping[str, Code] = {}


def handle(
    broker: "Broker", request: MetadataRequest, call: Call
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    asked = request.topics
    if asked is None or (not asked and call.version == 0):
        operations = _topic_operations(request)
        nodes = broker.nodes(call.connection.listener)
        live = {node.id for node in nodes}
        found = [_found(broker, topic, operations, live, call.version) for topic in broker.topics]
        return _response(broker, request, found, nodes)
    if request.allow_auto_topic_creation and broker.config.auto_create_topics_enable:
        missing = _missing(broker, asked)
        if missing:
            return _create(broker, request, call, missing)
    return _answer(broker, request, call, _NONE_FAILED)


def _missing(broker: "Broker", asked: list[MetadataRequestTopic]) -> list[str]:
    """Names of topics to create. Internal topics are created by the code that uses them."""
    names = dict.fromkeys(
        topic.name
        for topic in asked
        if topic.name is not None
        and topic.topic_id == NO_TOPIC_ID
        and broker.topics.get(topic.name) is None
        and topic.name not in INTERNAL
    )
    return list(names)[:CREATED_MAX]


async def _create(
    broker: "Broker", request: MetadataRequest, call: Call, names: list[str]
) -> MetadataResponse:
    failed: dict[str, Code] = {}
    for name in names:
        try:
            check_topic_name(name)
            check_replication_factor(broker, broker.config.default_replication_factor)
            await broker.catalog.create_topic(name, broker.config.num_partitions, {})
        except KafkaError as error:
            if error.code is Code.TOPIC_ALREADY_EXISTS:  # another client was faster
                continue
            failed[name] = error.code
            broker.refused("topic not created", call, error, topic=name[:300])
    return _answer(broker, request, call, failed)


def _answer(
    broker: "Broker", request: MetadataRequest, call: Call, failed: Mapping[str, Code]
) -> MetadataResponse:
    topics: dict[str | UUID, MetadataResponseTopic] = {}
    operations = _topic_operations(request)
    nodes = broker.nodes(call.connection.listener)
    live = {node.id for node in nodes}
    for asked in request.topics or ():
        key = asked.name if asked.topic_id == NO_TOPIC_ID else asked.topic_id
        if key is None:
            key = NO_TOPIC_ID
        if key not in topics:
            topics[key] = _topic(broker, asked, call.version, failed, operations, live)
    return _response(broker, request, list(topics.values()), nodes)


def _topic(
    broker: "Broker",
    asked: MetadataRequestTopic,
    version: int,
    failed: Mapping[str, Code],
    operations: int,
    live: Container[int],
) -> MetadataResponseTopic:
    name, id_ = asked.name, asked.topic_id
    if version < IDS_ASKED_SINCE and (id_ != NO_TOPIC_ID or name is None):
        return MetadataResponseTopic(
            error_code=Code.INVALID_REQUEST, name=name or "", topic_id=id_, partitions=[]
        )
    if id_ != NO_TOPIC_ID:
        topic = broker.topics.by_id(id_)
        if topic is None:
            return MetadataResponseTopic(
                error_code=Code.UNKNOWN_TOPIC_ID, name=None, topic_id=id_, partitions=[]
            )
        return _found(broker, topic, operations, live, version)
    if name is None:
        return MetadataResponseTopic(error_code=Code.INVALID_REQUEST, name=None, partitions=[])
    topic = broker.topics.get(name)
    if topic is not None:
        return _found(broker, topic, operations, live, version)
    return MetadataResponseTopic(
        error_code=failed.get(name) or why_missing(name),
        name=name,
        is_internal=name in INTERNAL,
        partitions=[],
        topic_authorized_operations=operations,
    )


def _found(
    broker: "Broker", topic: Topic, operations: int, live: Container[int], version: int
) -> MetadataResponseTopic:
    """`live`: the brokers that the client can connect to, by its listener."""
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            MetadataResponsePartition(
                error_code=(error := broker.leader_error(partition, live, version)),
                partition_index=index,
                leader_id=NO_LEADER if error else partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.in_sync),
                offline_replicas=broker.offline(partition, live),
            )
            for index, partition in enumerate(topic.partitions)
        ],
        topic_authorized_operations=operations,
    )


def _topic_operations(request: MetadataRequest) -> int:
    return TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED


def _response(
    broker: "Broker",
    request: MetadataRequest,
    topics: list[MetadataResponseTopic],
    nodes: list[ClusterMember],
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
