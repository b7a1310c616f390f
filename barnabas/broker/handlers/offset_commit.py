"""OffsetCommit: how far a group has read, kept in its log before the answer goes.

Always: a topic that does not exist fails alone; the others are committed.
"""

from typing import TYPE_CHECKING

from barnabas.broker.coordination import Reply, coordination
from barnabas.broker.dispatch import Call
from barnabas.broker.later import Later
from barnabas.coordinators.groups.replies import commit_refused
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.codec import Message
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

TOPIC_IDS_SINCE = 10


def handle(broker: "Broker", request: OffsetCommitRequest, call: Call) -> Reply:
    by_id = call.version >= TOPIC_IDS_SINCE
    known = []
    unknown = []
    for topic in request.topics:
        found = broker.topics.by_id(topic.topic_id) if by_id else broker.topics.get(topic.name)
        if found is None:
            unknown.append(topic)
        else:
            known.append(_named(topic, found.name) if by_id else topic)
    if by_id or unknown:
        request = _with_topics(request, known)
    try:
        reply = coordination(broker).run(
            request.group_id, lambda shard, caller, now: shard.commit(request, caller, now), call
        )
    except KafkaError as error:
        reply = commit_refused(request.topics, error.code)
    if not unknown:
        return reply
    code = Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC_OR_PARTITION
    return _joined(reply, commit_refused(unknown, code))


def _named(topic: OffsetCommitRequestTopic, name: str) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(name=name, topic_id=topic.topic_id, partitions=topic.partitions)


def _with_topics(
    request: OffsetCommitRequest, topics: list[OffsetCommitRequestTopic]
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=topics,
    )


def _joined(reply: Reply, more: OffsetCommitResponse) -> Reply:
    if isinstance(reply, Later):
        later: Later[Message] = Later()
        reply.then(lambda response: later.set(_both(response, more)))
        return later
    return _both(reply, more)


def _both(response: Message, more: OffsetCommitResponse) -> OffsetCommitResponse:
    assert isinstance(response, OffsetCommitResponse)
    return OffsetCommitResponse(topics=response.topics + more.topics)
