"""Changes and deletions of a share group's offsets, each in two steps.

In: AlterShareGroupOffsets, DeleteShareGroupOffsets, DeleteGroups; then the answer of the share
coordinator. Out: outcomes for the runtime.
Always: the group has no members. The first step is in the log before the share coordinator is
called, so that a broker that fails in between knows what is unfinished. Between the steps nobody
may join, and no other change begins. A new start offset comes with a new group epoch: leaders with
the old state are refused.
Not here: calling the share coordinator (broker/groups/share_groups.py).
"""

from collections.abc import Iterable
from uuid import UUID

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.records import Record
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.share.heartbeats import epoch_record, states_after
from barnabas.coordinators.groups.share.operations import share_group
from barnabas.coordinators.groups.share.state_partitions import NamedPartitions, SharePartitionId
from barnabas.coordinators.groups.state import ShardState, reply
from barnabas.coordinators.groups.topics import TopicsPort
from barnabas.coordinators.runtime import Outcome, ShardReply
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
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


def begin_alter(
    state: ShardState, request: AlterShareGroupOffsetsRequest, caller: Caller
) -> Outcome[Record]:
    """The answer has the partitions that may be changed. A group that does not exist is created."""
    try:
        group = share_group(state, request.group_id, create=True)
        _check_changeable(group)
    except KafkaError as error:
        refused = AlterShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.detail, responses=[]
        )
        return reply(caller, refused)
    topics = [_alterable(topic, state.topics) for topic in request.topics]
    response = AlterShareGroupOffsetsResponse(error_code=0, responses=topics)
    asked = {
        topic.topic_id: NamedPartitions(topic.topic_name, numbers)
        for topic in topics
        if (numbers := frozenset(p.partition_index for p in topic.partitions if not p.error_code))
    }
    if not asked:
        return reply(caller, response)
    state.active[group.id] = group
    group.altered = True
    stored = group.stored
    records = (
        epoch_record(group.id, stored.epoch + 1, stored.metadata_hash),
        stored.states.begin(asked).record(group.id),
    )
    return Outcome(records, (ShardReply(caller.token, response),), group.id)


def _alterable(
    topic: AlterShareGroupOffsetsRequestTopic, topics: TopicsPort
) -> AlterShareGroupOffsetsResponseTopic:
    found = topics.find(topic.topic_name)
    count = 0 if found is None else found.partitions
    partitions = []
    for each in topic.partitions:
        code, why = Code.NONE, None
        if not 0 <= each.partition_index < count:
            code, why = Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_OR_PARTITION.text
        elif each.start_offset < 0:
            code, why = Code.INVALID_REQUEST, f"start offset {each.start_offset} is negative"
        partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index, error_code=code, error_message=why
            )
        )
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=NO_TOPIC_ID if found is None else found.topic_id,
        partitions=partitions,
    )


def finish_alter(
    state: ShardState,
    group_id: str,
    keys: tuple[SharePartitionId, ...],
    response: ProtocolMessage,
    caller: Caller,
) -> Outcome[Record]:
    """These partitions have their new start offset."""
    group = _unlocked(state, group_id)
    answers = (ShardReply(caller.token, response),)
    if group is None:
        return Outcome(answers=answers)
    after = states_after(group, keys)
    records = () if after == group.stored.states else (after.record(group_id),)
    return Outcome(records, answers, group_id)


def begin_delete_offsets(
    state: ShardState, request: DeleteShareGroupOffsetsRequest, caller: Caller
) -> Outcome[Record]:
    """The answer has the topics whose state may be deleted."""
    try:
        group = share_group(state, request.group_id)
        _check_changeable(group)
    except KafkaError as error:
        refused = DeleteShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.detail, responses=[]
        )
        return reply(caller, refused)
    states = group.stored.states
    topics = []
    chosen: list[UUID] = []
    for topic in request.topics:
        found = state.topics.find(topic.topic_name)
        code, why = Code.NONE, None
        if found is None:
            code, why = Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_OR_PARTITION.text
        elif found.topic_id not in states.topics():
            code = Code.UNKNOWN_TOPIC_OR_PARTITION
            why = f"share group {group.id!r} has no offsets of topic {topic.topic_name!r}"
        else:
            chosen.append(found.topic_id)
        topics.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=NO_TOPIC_ID if found is None or code else found.topic_id,
                error_code=code,
                error_message=why,
            )
        )
    response = DeleteShareGroupOffsetsResponse(error_code=0, responses=topics)
    if not chosen:
        return reply(caller, response)
    group.altered = True
    records = (states.begin_deletion(chosen).record(group.id),)
    return Outcome(records, (ShardReply(caller.token, response),), group.id)


def begin_delete_group(state: ShardState, group_id: str, caller: Caller) -> Outcome[Record]:
    """Success also for groups of other types, which have no share state."""
    code = Code.NONE
    records: tuple[Record, ...] = ()
    group = state.find(group_id)
    if isinstance(group, ShareGroup):
        try:
            _check_changeable(group)
        except KafkaError as error:
            code = error.code
        else:
            group.altered = True
            if group.stored.states.topics():
                records = (group.stored.states.begin_deletion().record(group_id),)
    response = DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group_id, error_code=code)]
    )
    return Outcome(records, (ShardReply(caller.token, response),), group_id)


def finish_delete_offsets(
    state: ShardState,
    group_id: str,
    topic_ids: Iterable[UUID],
    response: ProtocolMessage,
    caller: Caller,
) -> Outcome[Record]:
    """The state of these topics is deleted."""
    group = _unlocked(state, group_id)
    answers = (ShardReply(caller.token, response),)
    if group is None:
        return Outcome(answers=answers)
    after = group.stored.states.without(topic_ids)
    records = () if after == group.stored.states else (after.record(group_id),)
    return Outcome(records, answers, group_id)


def forget_topics(state: ShardState, names: frozenset[str] | None) -> Outcome[Record]:
    """Topics were deleted, these or any: the share coordinator deletes their state itself."""
    records: list[Record] = []
    for group_id, stored in state.shares.items():
        gone = [
            topic_id
            for topic_id, name in stored.states.topics().items()
            if (names is None or name in names) and state.topics.name_of(topic_id) is None
        ]
        if gone:
            records.append(stored.states.without(gone).record(group_id))
    return Outcome(tuple(records), divisible=True)


def unlock(state: ShardState, group_id: str) -> None:
    """The change has ended, also if it failed."""
    _unlocked(state, group_id)


def _unlocked(state: ShardState, group_id: str) -> ShareGroup | None:
    group = state.find(group_id)
    if not isinstance(group, ShareGroup):
        return None
    group.altered = False
    return group


def _check_changeable(group: ShareGroup) -> None:
    if group.size:
        raise InvalidRequest(
            Code.NON_EMPTY_GROUP,
            f"share group {group.id!r} has {group.size} members; stop them first",
        )
    if group.altered:
        raise Retriable(
            Code.COORDINATOR_NOT_AVAILABLE,
            f"the offsets of share group {group.id!r} are being changed already; try again",
        )
