"""Metadata: brokers, topics, leaders."""

from typing import TYPE_CHECKING, Any

from barnabas.broker.dispatch import Call
from barnabas.broker.topic import Topic
from barnabas.model.errors import Code
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def handle(broker: "Broker", request: MetadataRequest, call: Call) -> Any:
    if request.topics is None or (call.version == 0 and not request.topics):
        return _respond(broker, [_topic(t) for t in broker.topics])
    if any(broker.topics.get(t.name or "") is None for t in request.topics):
        return _create(broker, request, call)
    return _respond(broker, [_topic(broker.topics.existing(t.name or "")) for t in request.topics])


async def _create(broker: "Broker", request: MetadataRequest, call: Call) -> MetadataResponse:
    topics = []
    for t in request.topics or ():
        topic = broker.topics.get(t.name or "")
        if topic is None and request.allow_auto_topic_creation:
            topic = await broker.catalog.create_topic(t.name or "", 1, {})
        topics.append(
            _topic(topic)
            if topic
            else MetadataResponseTopic(
                error_code=Code.UNKNOWN_TOPIC_OR_PARTITION, name=t.name, partitions=[]
            )
        )
    return _respond(broker, topics)


def _respond(broker: "Broker", topics: list[MetadataResponseTopic]) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=broker.id, host=broker.host, port=broker.port)],
        cluster_id=broker.cluster_id,
        controller_id=broker.id,
        topics=topics,
    )


def _topic(topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            MetadataResponsePartition(
                error_code=0,
                partition_index=index,
                leader_id=p.leader,
                leader_epoch=p.leader_epoch,
                replica_nodes=list(p.replicas),
                isr_nodes=list(p.in_sync),
            )
            for index, p in enumerate(topic.partitions)
        ],
    )
