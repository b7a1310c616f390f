"""The operations on committed offsets: commit, fetch, delete.

In: OffsetCommit, OffsetFetch, OffsetDelete. Out: outcomes for the runtime, responses.
Always: the group decides who may commit; without a group, a commit without a member is accepted.
A share group has no committed offsets.
Not here: the offsets themselves (store.py), their retention (retention.py).
"""

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.classic import membership as classic_membership
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.consumer import membership as consumer_membership
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.offsets import store
from barnabas.coordinators.groups.records import OffsetRecord, Record
from barnabas.coordinators.groups.replies import commit_refused
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.state import Group, ShardState, reply
from barnabas.coordinators.groups.subscription import CONSUMER
from barnabas.coordinators.runtime import Now, Outcome, ShardReply
from barnabas.model.errors import Code
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponseTopics,
)

GROUP_ID_NOT_FOUND_SINCE = 9  # of OffsetCommit


def commit(
    state: ShardState, request: OffsetCommitRequest, caller: Caller, now: Now
) -> Outcome[Record]:
    group = state.find(request.group_id)
    code = check_commit(group, request, caller)
    if code:
        return reply(caller, commit_refused(request.topics, code))
    if isinstance(group, ClassicGroup):
        classic_membership.committed(group, request.member_id, now)
    limit = state.limits.offset_metadata_chars_max
    records, response = store.commit(request, limit, now)
    return Outcome(tuple(records), (ShardReply(caller.token, response),), request.group_id)


def check_commit(group: Group | None, request: OffsetCommitRequest, caller: Caller) -> Code:
    epoch = request.generation_id_or_member_epoch
    if isinstance(group, ShareGroup):
        return Code.GROUP_ID_NOT_FOUND
    partitions = (
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    if isinstance(group, ConsumerGroup):
        return consumer_membership.check_commit(
            group, request.member_id, epoch, caller.version, partitions
        )
    if group is not None and group.type == "streams":
        return group.check_commit(request.member_id, epoch, caller.version, partitions)
    if group is not None:
        return classic_membership.check_commit(
            group, request.member_id, request.group_instance_id, epoch
        )
    if epoch < 0:
        return Code.NONE
    is_known_code = caller.version >= GROUP_ID_NOT_FOUND_SINCE
    return Code.GROUP_ID_NOT_FOUND if is_known_code else Code.ILLEGAL_GENERATION


def check_fetch(state: ShardState, group_id: str, member_id: str | None, epoch: int) -> Code:
    """May this client fetch the group's offsets? Members of consumer and streams groups send their
    epoch."""
    group = state.look(group_id)
    if isinstance(group, ConsumerGroup):
        return consumer_membership.check_fetch(group, member_id, epoch)
    if group is not None and group.type == "streams":
        return group.check_fetch(member_id, epoch)
    return Code.NONE


def fetch(
    state: ShardState,
    group_id: str,
    topics: list[OffsetFetchRequestTopics] | None,
    *,
    stable: bool,
) -> list[OffsetFetchResponseTopics]:
    return store.fetch(state.offsets, group_id, topics, state.pending if stable else None)


def delete(state: ShardState, request: OffsetDeleteRequest, caller: Caller) -> Outcome[Record]:
    group = state.find(request.group_id)
    code = Code.NONE
    if group is None or isinstance(group, ShareGroup):
        code = Code.GROUP_ID_NOT_FOUND
    elif group.size and group.protocol_type not in (CONSUMER, "streams"):
        code = Code.NON_EMPTY_GROUP
    if group is None or code:
        return reply(caller, OffsetDeleteResponse(error_code=code, topics=[]))
    records: list[Record] = []
    topics = []
    for topic in request.topics:
        code = Code.NONE
        if group.subscribes_to(topic.name):
            code = Code.GROUP_SUBSCRIBED_TO_TOPIC
        indexes = [partition.partition_index for partition in topic.partitions]
        if not code:
            records += (
                OffsetRecord(request.group_id, topic.name, index, None)
                for index in indexes
                if state.offsets.find(request.group_id, topic.name, index) is not None
                or state.pending.is_pending(request.group_id, topic.name, index)
            )
        topics.append(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=index, error_code=code)
                    for index in indexes
                ],
            )
        )
    response = OffsetDeleteResponse(error_code=Code.NONE, topics=topics)
    return Outcome(tuple(records), (ShardReply(caller.token, response),), request.group_id)
