"""DescribeGroupHistory: why groups are as they are, for our own command line.

Always: bounded in groups and moves; what takes long to work out is worked out off the loop.
"""

import asyncio
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Coordination, coordination
from barnabas.broker.groups.lag import GroupPosition, unread_since_ms
from barnabas.broker.groups.rates import end_offset
from barnabas.broker.net.dispatch import Call
from barnabas.coordinators.groups.classic.states import ClassicGroupState
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.history.rebalance_history import (
    CauseKind,
    RebalanceCause,
    RebalanceEntry,
)
from barnabas.coordinators.groups.history.text import cause_text
from barnabas.coordinators.groups.share.group import ASSIGNOR, ShareGroup
from barnabas.coordinators.groups.state import Group
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.describe_group_history import (
    DescribeGroupHistoryRequest,
    DescribeGroupHistoryResponse,
    GroupHistory,
    GroupHistoryCause,
    GroupHistoryMember,
    GroupHistoryMove,
    GroupHistoryNote,
    GroupHistoryPartition,
    GroupHistoryRebalance,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.coordinators.groups.streams.group import StreamsGroup

GROUPS_MAX = 20
MOVES_MAX = 500  # of one rebalance
PARTITIONS_MAX = 20_000


async def handle(
    broker: "Broker", request: DescribeGroupHistoryRequest, call: Call
) -> DescribeGroupHistoryResponse:
    open_now = frozenset(connection.peer for connection in broker.connections)
    found = [
        await _history(broker, group_id, open_now) for group_id in request.group_ids[:GROUPS_MAX]
    ]
    for group_id in request.group_ids[GROUPS_MAX : GROUPS_MAX + 1]:
        message = (
            f"the request has {len(request.group_ids)} groups; at most {GROUPS_MAX} are allowed"
        )
        found.append(_refused(group_id, Code.INVALID_REQUEST, message))
    return DescribeGroupHistoryResponse(groups=found)


async def _history(broker: "Broker", group_id: str, open_now: AbstractSet[str]) -> GroupHistory:
    groups = coordination(broker)
    try:
        shard = groups.shard_of(group_id)
    except KafkaError as error:
        return _refused(group_id, error.code, error.detail)
    group = shard.group(group_id)
    if group is None:
        return _refused(group_id, Code.GROUP_ID_NOT_FOUND, f"there is no group {group_id[:300]!r}")
    now = groups.now()
    history = group.history
    members = _members(group, now)
    closed = tuple(history.entries)  # which no longer change
    rebalances = await asyncio.get_running_loop().run_in_executor(
        None, lambda: [_rebalance(rebalance, open_now, under_way=False) for rebalance in closed]
    )
    if history.under_way is not None:
        rebalances.append(_rebalance(history.under_way, open_now, under_way=True))
    return GroupHistory(
        error_code=Code.NONE,
        group_id=group_id,
        now_ms=now.wall_ms,
        generation=group.generation,
        members=members,
        partitions=await _partitions(broker, groups, group_id, now),
        rebalances=rebalances,
        notes=[
            GroupHistoryNote(
                at_ms=note.at.wall_ms, times=note.times, cause=_cause(note.cause, open_now)
            )
            for note in history.notes
        ],
        since_ms=groups.since_ms,
    )


def _members(group: Group, now: Now) -> list[GroupHistoryMember]:
    if isinstance(group, ShareGroup):
        return _members_of_share_group(group, now)
    if isinstance(group, ConsumerGroup):
        return _members_of_new(group, now)
    if group.type == "streams":
        return _members_of_streams_group(group, now)
    joining = group.state is ClassicGroupState.PREPARING
    syncing = group.state is ClassicGroupState.COMPLETING
    return [
        GroupHistoryMember(
            member_id=member.id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            silent_ms=now.ms - member.heard_ms,
            awaited=(joining and member.joining is None)
            or (syncing and member.id == group.members.leader),
            protocols=list(member.protocols),
        )
        for member in group.members.by_id.values()
    ]


def _members_of_share_group(group: ShareGroup, now: Now) -> list[GroupHistoryMember]:
    return [
        GroupHistoryMember(
            member_id=member.id,
            instance_id=None,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=group.limits.share_session_timeout_ms,
            rebalance_timeout_ms=-1,
            silent_ms=group.sessions.silent_ms(member.id, now),
            awaited=member.epoch != group.stored.target_epoch,
            protocols=[ASSIGNOR],
        )
        for member in group.stored.members.values()
    ]


def _members_of_streams_group(group: "StreamsGroup", now: Now) -> list[GroupHistoryMember]:
    return [
        GroupHistoryMember(
            member_id=member.id,
            instance_id=None,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=group.limits.streams_session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            silent_ms=group.sessions.silent_ms(member.id, now),
            awaited=not member.has_reached(group.stored.target_epoch)
            and member.state is not MemberState.UNRELEASED,
            protocols=[],
        )
        for member in group.stored.members.values()
    ]


def _members_of_new(group: ConsumerGroup, now: Now) -> list[GroupHistoryMember]:
    stored = group.stored
    return [
        GroupHistoryMember(
            member_id=member.id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=group.session_ms(member),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            silent_ms=group.sessions.silent_ms(member.id, now),
            awaited=not member.has_reached(stored.target_epoch)
            and member.state is not MemberState.UNRELEASED,
            protocols=[stored.assignor(None, None, group.limits.consumer_assignors[0])],
        )
        for member in stored.members.values()
    ]


async def _partitions(
    broker: "Broker", groups: Coordination, group_id: str, now: Now
) -> list[GroupHistoryPartition]:
    """Those that this broker leads."""
    places: list[GroupPosition] = []
    committed_at: list[int] = []
    for topic, partition, value in groups.shard_of(group_id).offsets.of_group(group_id):
        end = end_offset(broker.topics, topic, partition)
        if end is not None and len(places) < PARTITIONS_MAX:
            places.append(GroupPosition(group_id, topic, partition, value.offset, end))
            committed_at.append(value.commit_timestamp)
    unread_since = await unread_since_ms(broker.topics, places)
    found = []
    for place, at_ms, since_ms in zip(places, committed_at, unread_since, strict=True):
        rate = groups.pace.of(place[:3], place.committed, place.end, now)
        found.append(
            GroupHistoryPartition(
                topic=place.topic,
                partition=place.partition,
                committed=place.committed,
                committed_at_ms=at_ms,
                unread_since_ms=-1 if since_ms is None else since_ms,
                pace_ms=-1 if rate is None else rate.ms,
                consumed=-1 if rate is None else rate.consumed,
                produced=-1 if rate is None else rate.produced,
            )
        )
    return found


def _rebalance(
    entry: RebalanceEntry, open_now: AbstractSet[str], *, under_way: bool
) -> GroupHistoryRebalance:
    moves = entry.moves()
    last = entry.last
    return GroupHistoryRebalance(
        began_ms=entry.began.wall_ms,
        generation=entry.generation,
        members=entry.members,
        protocol=entry.protocol,
        leader=entry.leader,
        under_way=under_way,
        join_ms=entry.join_ms,
        sync_ms=entry.sync_ms,
        last_member="" if last is None else last.member,
        last_client="" if last is None else last.client,
        last_after_ms=-1 if last is None else last.after_ms,
        causes=[_cause(cause, open_now) for cause in entry.causes],
        more_causes=entry.more_causes,
        moves=None
        if moves is None
        else [
            GroupHistoryMove(
                topic=move.partition.topic,
                partition=move.partition.partition,
                before=move.before,
                after=move.after,
            )
            for move in moves[:MOVES_MAX]
        ],
        more_moves=0 if moves is None else max(0, len(moves) - MOVES_MAX),
    )


def _cause(cause: RebalanceCause, open_now: AbstractSet[str]) -> GroupHistoryCause:
    return GroupHistoryCause(
        kind=cause.kind.name,
        text=cause_text(cause),
        member_id=cause.member,
        client_id=cause.client,
        client_host=cause.host,
        instance_id=cause.instance,
        reason=cause.reason,
        waited_ms=cause.waited_ms,
        allowed_ms=cause.allowed_ms,
        topics_added=list(cause.topics_added),
        topics_dropped=list(cause.topics_dropped),
        alive=cause.kind is not CauseKind.JOINED and cause.connection in open_now,
    )


def _refused(group_id: str, code: Code, message: str) -> GroupHistory:
    return GroupHistory(
        error_code=code,
        error_message=message,
        group_id=group_id,
        now_ms=-1,
        generation=-1,
        members=[],
        partitions=[],
        rebalances=[],
        notes=[],
    )
