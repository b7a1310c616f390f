"""OffsetCommit: a group's committed offsets, in its log before the reply is sent.

Always: a topic or partition that does not exist fails alone; the others are committed.
"""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.coordinators.groups.offsets.refusals import CODES, why_refused
from barnabas.coordinators.groups.replies import commit_refused
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
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
            continue
        count = len(found.partitions)
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < count:
                topic, strangers = _divided(topic, count)
                unknown.append(strangers)
                break
        if topic.partitions:
            known.append(_named(topic, found.name) if by_id else topic)
    if by_id or unknown:
        request = _with_topics(request, known)
    try:
        reply = coordination(broker).run(
            request.group_id, lambda shard, caller, now: shard.commit(request, caller, now), call
        )
    except KafkaError as error:
        reply = commit_refused(request.topics, error.code)
    _log_refusal(broker, request, reply, call)
    if not unknown:
        return reply
    return _joined(reply, _unknown(broker, unknown, by_id=by_id))


def _log_refusal(broker: "Broker", request: OffsetCommitRequest, reply: Reply, call: Call) -> None:
    """If the member may not commit: then no partition's offset was committed."""
    if not isinstance(reply, OffsetCommitResponse) or not reply.topics:
        return
    code = next((each.error_code for each in reply.topics[0].partitions), 0)
    if code not in CODES:
        return
    group = coordination(broker).shard_of(request.group_id).group(request.group_id)
    history = None if group is None else group.history
    error = KafkaError(Code.of(code), why_refused(Code.of(code), history, request.member_id))
    broker.refused(
        "commit refused", call, error, group=request.group_id[:300], member=request.member_id[:300]
    )


def _unknown(
    broker: "Broker", topics: list[OffsetCommitRequestTopic], *, by_id: bool
) -> OffsetCommitResponse:
    refused = []
    for topic in topics:
        code = Code.UNKNOWN_TOPIC_OR_PARTITION
        if by_id and broker.topics.by_id(topic.topic_id) is None:
            code = Code.UNKNOWN_TOPIC_ID
        refused += commit_refused([topic], code).topics
    return OffsetCommitResponse(topics=refused)


def _divided(
    topic: OffsetCommitRequestTopic, count: int
) -> tuple[OffsetCommitRequestTopic, OffsetCommitRequestTopic]:
    """With the partitions that exist, and with those that do not."""
    there = [each for each in topic.partitions if 0 <= each.partition_index < count]
    strangers = [each for each in topic.partitions if not 0 <= each.partition_index < count]
    return _only(topic, there), _only(topic, strangers)


def _only(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition]
) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


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
    if isinstance(reply, DeferredReply):
        deferred: DeferredReply[ProtocolMessage] = DeferredReply()
        reply.then(lambda response: deferred.set(_both(response, more)))
        return deferred
    return _both(reply, more)


def _both(response: ProtocolMessage, more: OffsetCommitResponse) -> OffsetCommitResponse:
    assert isinstance(response, OffsetCommitResponse)
    topics: dict[str | int, OffsetCommitResponseTopic] = {}
    for topic in (*response.topics, *more.topics):
        answered = topics.setdefault(topic.topic_id.int or topic.name, topic)
        # One result per topic, also if some of its partitions do not exist.
        if answered is not topic:
            answered.partitions.extend(topic.partitions)
    return OffsetCommitResponse(topics=list(topics.values()))
