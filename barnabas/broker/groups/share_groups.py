"""Calls the share coordinator for the group coordinator: initializes and deletes share state.

In: initializations that heartbeats asked for; requests to change or delete offsets. Out: operations
on the shard, before and after the call.
Always: the share coordinator is called when the shard's records about it are committed. A call
whose shard has moved to another broker changes nothing here.
Not here: the decisions (coordinators/groups/share/), the share coordinator (broker/share/).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.broker.net.deferred_reply import settled
from barnabas.broker.share.coordination import share_states
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.share.heartbeats import StateInitialization
from barnabas.coordinators.groups.share.state_partitions import SharePartitionId
from barnabas.coordinators.share.keys import StateResult
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from barnabas.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from barnabas.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext
    from barnabas.broker.groups.coordination import Coordination
    from barnabas.broker.net.dispatch import Call


UNSET = -1  # the group's share.auto.offset.reset decides


async def initialize(
    broker: "GroupsContext", groups: "Coordination", index: int, asked: StateInitialization
) -> None:
    """Initialize the state of partitions, then let the shard `index` assign them."""
    if not await groups.committed(index):
        return
    starts = dict.fromkeys(asked.keys, UNSET)
    results = await share_states(broker).initialize(asked.group, starts, asked.epoch)
    done = tuple(result.key for result in results if result.code is Code.NONE)
    failed = [result for result in results if result.code is not Code.NONE]
    groups.apply(index, lambda shard, now: shard.share.initialized(asked.group, done, now))
    if failed:
        keys = [result.key for result in failed]
        groups.apply(index, lambda shard, now: shard.share.not_initialized(asked.group, keys, now))
        broker.log.warning(
            "share state not initialized",
            group=asked.group,
            partitions=len(failed),
            reason=failed[0].code.name,
            detail=failed[0].message,
        )


async def alter_offsets(
    broker: "GroupsContext",
    groups: "Coordination",
    request: AlterShareGroupOffsetsRequest,
    call: "Call",
) -> AlterShareGroupOffsetsResponse:
    group_id = request.group_id
    try:
        first = await settled(
            groups.run(group_id, lambda shard, to, _: shard.share.begin_alter(request, to), call)
        )
        assert isinstance(first, AlterShareGroupOffsetsResponse)
        starts = _new_starts(request, first)
        group = groups.shard_of(group_id).group(group_id)
        if first.error_code or not starts or not isinstance(group, ShareGroup):
            return first
        results: list[StateResult] = []
        try:
            states = share_states(broker)
            results = await states.initialize(group_id, starts, group.stored.epoch)
        finally:
            if not results:
                groups.shard_of(group_id).share.unlock(group_id)
        codes = {result.key: result for result in results}
        done = tuple(key for key, result in codes.items() if result.code is Code.NONE)
        response = AlterShareGroupOffsetsResponse(
            error_code=0, responses=[_altered(topic, codes) for topic in first.responses]
        )
        last = await settled(
            groups.run(
                group_id,
                lambda shard, to, _: shard.share.finish_alter(group_id, done, response, to),
                call,
            )
        )
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.detail, responses=[]
        )
    assert isinstance(last, AlterShareGroupOffsetsResponse)
    return last


def _new_starts(
    request: AlterShareGroupOffsetsRequest, response: AlterShareGroupOffsetsResponse
) -> dict[SharePartitionId, int]:
    """The partitions that were accepted, with their new start offsets."""
    return {
        (found.topic_id, asked.partition_index): asked.start_offset
        for topic, found in zip(request.topics, response.responses, strict=False)
        for asked, result in zip(topic.partitions, found.partitions, strict=True)
        if not result.error_code
    }


def _altered(
    topic: AlterShareGroupOffsetsResponseTopic, codes: Mapping[SharePartitionId, StateResult]
) -> AlterShareGroupOffsetsResponseTopic:
    partitions = []
    for each in topic.partitions:
        result = codes.get((topic.topic_id, each.partition_index))
        if each.error_code or result is None or result.code is Code.NONE:
            partitions.append(each)
            continue
        partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index,
                error_code=result.code,
                error_message=result.message or result.code.text,
            )
        )
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=partitions
    )


async def delete_offsets(
    broker: "GroupsContext",
    groups: "Coordination",
    request: DeleteShareGroupOffsetsRequest,
    call: "Call",
) -> DeleteShareGroupOffsetsResponse:
    group_id = request.group_id
    try:
        first = await settled(
            groups.run(
                group_id, lambda shard, to, _: shard.share.begin_delete_offsets(request, to), call
            )
        )
        assert isinstance(first, DeleteShareGroupOffsetsResponse)
        chosen = [topic.topic_id for topic in first.responses if not topic.error_code]
        if first.error_code or not chosen:
            return first
        failed = await _delete_state(broker, groups, group_id, chosen)
        deleted = [topic_id for topic_id in chosen if topic_id not in failed]
        response = DeleteShareGroupOffsetsResponse(
            error_code=0, responses=[_deleted(topic, failed) for topic in first.responses]
        )
        last = await settled(
            groups.run(
                group_id,
                lambda shard, to, _: shard.share.finish_delete_offsets(
                    group_id, deleted, response, to
                ),
                call,
            )
        )
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.detail, responses=[]
        )
    assert isinstance(last, DeleteShareGroupOffsetsResponse)
    return last


def _deleted(
    topic: DeleteShareGroupOffsetsResponseTopic, failed: Mapping[UUID, StateResult]
) -> DeleteShareGroupOffsetsResponseTopic:
    result = failed.get(topic.topic_id)
    if result is None:
        return topic
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=topic.topic_id,
        error_code=result.code,
        error_message=result.message or result.code.text,
    )


async def delete_group(
    broker: "GroupsContext", groups: "Coordination", group_id: str, call: "Call"
) -> DeleteGroupsResponse:
    """Its share state first, so that a group that is gone leaves none behind."""
    try:
        first = await settled(
            groups.run(
                group_id, lambda shard, to, _: shard.share.begin_delete_group(group_id, to), call
            )
        )
        assert isinstance(first, DeleteGroupsResponse)
        group = groups.shard_of(group_id).group(group_id)
        if first.results[0].error_code or not isinstance(group, ShareGroup):
            return first
        topics = list(group.stored.states.deleting)
        failed = await _delete_state(broker, groups, group_id, topics)
        groups.shard_of(group_id).share.unlock(group_id)
        if failed:
            code = next(iter(failed.values())).code
            result = DeletableGroupResult(group_id=group_id, error_code=code)
            return DeleteGroupsResponse(results=[result])
        last = await settled(
            groups.run(group_id, lambda shard, to, _: shard.delete([group_id], to), call)
        )
    except KafkaError as error:
        result = DeletableGroupResult(group_id=group_id, error_code=error.code)
        return DeleteGroupsResponse(results=[result])
    assert isinstance(last, DeleteGroupsResponse)
    return last


async def _delete_state(
    broker: "GroupsContext", groups: "Coordination", group_id: str, topic_ids: Sequence[UUID]
) -> dict[UUID, StateResult]:
    """The topics for which it failed. The share coordinator itself deletes the state of topics
    that do not exist any more."""
    keys = [
        (topic_id, number)
        for topic_id in topic_ids
        if (topic := broker.topics.by_id(topic_id)) is not None
        for number in range(len(topic.partitions))
    ]
    if not keys:
        return {}
    results: list[StateResult] = []
    try:
        results = await share_states(broker).delete(group_id, keys)
    finally:
        if not results:
            groups.shard_of(group_id).share.unlock(group_id)
    return {result.key[0]: result for result in results if result.code is not Code.NONE}
