"""OffsetDelete: a group forgets how far it has read in topics it no longer subscribes to.

Always: a topic that does not exist fails alone.
"""

from typing import TYPE_CHECKING

from barnabas.broker.coordination import Reply, coordination
from barnabas.broker.dispatch import Call
from barnabas.broker.later import Later
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.codec import Message
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def handle(broker: "Broker", request: OffsetDeleteRequest, call: Call) -> Reply:
    known = [topic for topic in request.topics if broker.topics.get(topic.name) is not None]
    unknown = [_unknown(topic) for topic in request.topics if topic not in known]
    known_only = OffsetDeleteRequest(group_id=request.group_id, topics=known)
    try:
        reply = coordination(broker).run(
            request.group_id,
            lambda shard, caller, now: shard.delete_offsets(known_only, caller),
            call,
        )
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code, topics=[])
    if not unknown:
        return reply
    if isinstance(reply, Later):
        later: Later[Message] = Later()
        reply.then(lambda response: later.set(_with(response, unknown)))
        return later
    return _with(reply, unknown)


def _unknown(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(
                partition_index=partition.partition_index,
                error_code=Code.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for partition in topic.partitions
        ],
    )


def _with(response: Message, unknown: list[OffsetDeleteResponseTopic]) -> OffsetDeleteResponse:
    assert isinstance(response, OffsetDeleteResponse)
    if response.error_code:
        return response
    return OffsetDeleteResponse(error_code=0, topics=response.topics + unknown)
