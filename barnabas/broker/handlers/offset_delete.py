"""OffsetDelete: deletes a group's offsets of topics that it no longer subscribes to.

Always: a topic that does not exist fails alone.
"""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: OffsetDeleteRequest, call: Call) -> Reply:
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
    if isinstance(reply, DeferredReply):
        deferred: DeferredReply[ProtocolMessage] = DeferredReply()
        reply.then(lambda response: deferred.set(_with(response, unknown)))
        return deferred
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


def _with(
    response: ProtocolMessage, unknown: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteResponse:
    assert isinstance(response, OffsetDeleteResponse)
    if response.error_code:
        return response
    return OffsetDeleteResponse(error_code=0, topics=response.topics + unknown)
