"""OffsetFetch: how far groups have read.

Always: every partition asked for has its answer, -1 where nothing was committed.

A broker that coordinates a group no more asks the one that does, instead of refusing: clients that
have been refused ask another broker only where they were written with care, and librdkafka (its
issue 5586) never reads again, which a rolling restart would bring upon any consumer that is just
being given its partitions.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from barnabas.broker.cluster_member import PEER
from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

ERROR_SINCE = 2
SEVERAL_SINCE = 8
TOPIC_IDS_SINCE = 10
MOVING_MS_MAX = 5_000  # that a group may be on its way to another broker
LOOK_MS = 20
_MOVING = (
    Code.NOT_COORDINATOR,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
)


def handle(
    broker: "Broker", request: OffsetFetchRequest, call: Call
) -> Reply | Coroutine[Any, Any, OffsetFetchResponse]:
    answer = _look(broker, request, call)
    if broker.cluster is None or call.client_id.startswith(PEER):
        return answer
    if isinstance(answer, DeferredReply):  # it may be lost while it waits
        return _follow_later(broker, request, call, answer)
    assert isinstance(answer, OffsetFetchResponse)
    return _follow(broker, request, call, answer) if _is_moving(answer) else answer


def _follow_later(
    broker: "Broker", request: OffsetFetchRequest, call: Call, answer: DeferredReply[Any]
) -> DeferredReply[Any]:
    deferred: DeferredReply[Any] = DeferredReply()

    async def follow(found: OffsetFetchResponse) -> None:
        deferred.set(await _follow(broker, request, call, found))

    def told(found: OffsetFetchResponse) -> None:
        if _is_moving(found):
            broker.dispatcher.keep(broker.loop.create_task(follow(found)))
        else:
            deferred.set(found)

    answer.then(told)
    return deferred


def _look(broker: "Broker", request: OffsetFetchRequest, call: Call) -> Reply:
    return coordination(broker).look(lambda: _answer(broker, request, call), _groups(request, call))


def _groups(request: OffsetFetchRequest, call: Call) -> list[str]:
    if call.version >= SEVERAL_SINCE:
        return [group.group_id for group in request.groups]
    return [request.group_id]


def _is_moving(answer: OffsetFetchResponse) -> bool:
    """Of a group, and it is the only one: several are asked for by who knows how to ask again."""
    codes = [group.error_code for group in answer.groups] or [answer.error_code]
    if codes == [Code.NONE]:  # version 1 has it at each partition
        codes = list({each.error_code for topic in answer.topics for each in topic.partitions})
    return len(codes) == 1 and codes[0] in _MOVING


async def _follow(
    broker: "Broker", request: OffsetFetchRequest, call: Call, answer: OffsetFetchResponse
) -> OffsetFetchResponse:
    """From whoever coordinates the group now, as soon as somebody does."""
    assert broker.cluster is not None
    loop = broker.loop
    deadline = loop.time() + MOVING_MS_MAX / 1000
    [group_id] = _groups(request, call)
    while _is_moving(answer) and (left_ms := round((deadline - loop.time()) * 1000)) > 0:
        leader = BrokerId(coordination(broker).leader_of(group_id))
        try:
            found: Any
            if leader == broker.id:
                found = await _settled(_look(broker, request, call))
            else:
                found = await broker.cluster.peers.call(
                    leader, request, lane="forward", timeout_ms=left_ms, version=call.version
                )
        except KafkaError:
            found = answer
        answer = found
        if _is_moving(answer):
            await asyncio.sleep(LOOK_MS / 1000)
    return answer


async def _settled(reply: Reply) -> Any:
    if not isinstance(reply, DeferredReply):
        return reply
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    reply.then(lambda answer: None if told.done() else told.set_result(answer))
    return await told


def _answer(broker: "Broker", request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    if call.version >= SEVERAL_SINCE:
        by_id = call.version >= TOPIC_IDS_SINCE
        return OffsetFetchResponse(
            groups=[
                _fetch(broker, group, stable=request.require_stable, by_id=by_id)
                for group in request.groups
            ]
        )
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    group = _fetch(broker, asked, stable=request.require_stable)
    if group.error_code and call.version < ERROR_SINCE:
        # Version 1 has no place for the group's error but at each partition.
        group = _everywhere(group, topics or [])
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _fetch(
    broker: "Broker", group: OffsetFetchRequestGroup, *, stable: bool, by_id: bool = False
) -> OffsetFetchResponseGroup:
    try:
        shard = coordination(broker).shard_of(group.group_id)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error.code)
    code = shard.check_fetch(group.group_id, group.member_id, group.member_epoch)
    if code:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
    if not by_id:
        return OffsetFetchResponseGroup(
            group_id=group.group_id,
            topics=shard.fetch(group.group_id, group.topics, stable=stable),
        )
    known: list[OffsetFetchRequestTopics] | None = None
    unknown: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        known = []
        for topic in group.topics:
            found = broker.topics.by_id(topic.topic_id)
            if found is None:
                unknown.append(_refused(topic, Code.UNKNOWN_TOPIC_ID))
            else:
                known.append(
                    OffsetFetchRequestTopics(
                        name=found.name,
                        topic_id=topic.topic_id,
                        partition_indexes=topic.partition_indexes,
                    )
                )
    answered = []
    for fetched in shard.fetch(group.group_id, known, stable=stable):
        found = broker.topics.get(fetched.name)
        if found is not None:  # a topic that is gone has no id to answer with
            answered.append(
                OffsetFetchResponseTopics(
                    name=fetched.name, topic_id=found.id, partitions=fetched.partitions
                )
            )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=answered + unknown)


def _everywhere(
    group: OffsetFetchResponseGroup, topics: list[OffsetFetchRequestTopics]
) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group.group_id, topics=[_refused(topic, group.error_code) for topic in topics]
    )


def _refused(topic: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ],
    )
