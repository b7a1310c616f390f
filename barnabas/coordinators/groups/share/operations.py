"""The operations on share groups: heartbeats, leaving, and what follows from the share state.

In: ShareGroupHeartbeat, answers of the share coordinator. Out: outcomes for the runtime.
Always: a share group is never converted to another type, nor another group to a share group.
Not here: what a heartbeat decides (heartbeats.py), changes of offsets (offset_changes.py).
"""

from collections.abc import Iterable
from dataclasses import replace

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.history.rebalance_history import CauseKind, RebalanceCause
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.records import Record
from barnabas.coordinators.groups.replies import not_of_kind, share_refused
from barnabas.coordinators.groups.share import heartbeats
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.share.member import (
    JOINING,
    LEAVING,
    ShareMember,
    removal_records,
)
from barnabas.coordinators.groups.share.state_partitions import SharePartitionId
from barnabas.coordinators.groups.share.stored import StoredShareGroup
from barnabas.coordinators.groups.share.target import make_targets, wait_ms
from barnabas.coordinators.groups.state import ShardState, reply
from barnabas.coordinators.groups.topics import metadata_hash
from barnabas.coordinators.runtime import Now, Outcome, ShardReply
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

RETRY_MS = 1_000  # after the share coordinator refused to initialize state
MEMBER_ID_CHARS_MAX = 36  # a UUID as text


def heartbeat(
    state: ShardState, request: ShareGroupHeartbeatRequest, caller: Caller, now: Now
) -> Outcome[Record]:
    group = state.active.get(request.group_id)
    if isinstance(group, ShareGroup):
        unchanged = heartbeats.unchanged(group, request, now)
        if unchanged is not None:
            return Outcome(answers=(ShardReply(caller.token, unchanged),))
    try:
        _check_request(state.limits, request)
        if request.member_epoch == LEAVING:
            return _leave(state, request, caller, now)
        found = share_group(state, request.group_id, create=request.member_epoch == JOINING)
        records, response, initialize = heartbeats.heartbeat(found, request, caller, now)
    except KafkaError as error:
        return reply(caller, share_refused(error.code, error.detail))
    state.active[found.id] = found
    if initialize is not None:
        state.initializations.append(initialize)
    return Outcome(tuple(records), (ShardReply(caller.token, response),), found.id)


def share_group(state: ShardState, group_id: str, *, create: bool = False) -> ShareGroup:
    """GROUP_ID_NOT_FOUND for groups of other types. A new group is not active yet."""
    group = state.find(group_id)
    if isinstance(group, ShareGroup):
        return group
    if group is None and create:
        return state.new_share_group(StoredShareGroup(group_id))
    raise not_of_kind("share", group_id, None if group is None else group.type)


def _check_request(limits: GroupLimits, request: ShareGroupHeartbeatRequest) -> None:
    wrong = None
    names = request.subscribed_topic_names
    if not request.member_id.strip():
        wrong = "the member id is empty"
    elif len(request.member_id) > MEMBER_ID_CHARS_MAX:
        wrong = f"the member id has more than {MEMBER_ID_CHARS_MAX} characters"
    elif not request.group_id.strip():
        wrong = "the group id is empty"
    elif request.rack_id is not None and not request.rack_id.strip():
        wrong = "the rack id is empty; leave it out"
    elif request.member_epoch < LEAVING:
        wrong = f"member epoch {request.member_epoch} is not valid; expected -1 or more"
    elif request.member_epoch == JOINING and not names:
        wrong = "a member that joins must send its topic names"
    elif names is not None and sum(map(len, names)) > limits.member_metadata_bytes_max:
        wrong = (
            f"the names of the {len(names)} subscribed topics have more than"
            f" {limits.member_metadata_bytes_max} characters together"
        )
    if wrong is not None:
        raise InvalidRequest(Code.INVALID_REQUEST, wrong)


# Members that are removed


def _leave(
    state: ShardState, request: ShareGroupHeartbeatRequest, caller: Caller, now: Now
) -> Outcome[Record]:
    group = share_group(state, request.group_id)
    member = group.stored.members.get(request.member_id)
    if member is None:
        raise InvalidRequest(
            Code.UNKNOWN_MEMBER_ID,
            f"{request.member_id!r} is not a member of group {group.id!r}",
        )
    group.history.happened(heartbeats.cause_of(group, CauseKind.LEFT, member), now)
    response = ShareGroupHeartbeatResponse(
        error_code=0,
        member_id=member.id,
        member_epoch=request.member_epoch,
        heartbeat_interval_ms=0,
    )
    return _remove(group, member, (ShardReply(caller.token, response),), now)


def session_over(group: ShareGroup, member_id: str, now: Now) -> Outcome[Record]:
    """The member was silent for its session timeout."""
    member = group.stored.members.get(member_id)
    if member is None:
        return Outcome()
    cause = replace(
        heartbeats.cause_of(group, CauseKind.LATE_HEARTBEAT, member),
        waited_ms=group.sessions.silent_ms(member_id, now),
        allowed_ms=group.limits.share_session_timeout_ms,
    )
    group.history.happened(cause, now)
    return _remove(group, member, (), now)


def _remove(
    group: ShareGroup, member: ShareMember, answers: tuple[ShardReply, ...], now: Now
) -> Outcome[Record]:
    stored = group.stored
    topics = stored.topics_with(member)
    epoch = stored.epoch + 1
    records = removal_records(group.id, member.id)
    digest = metadata_hash(topics, group.topics_port)
    records.append(heartbeats.epoch_record(group.id, epoch, digest))
    group.drop_member(member.id)
    if group.size == 1:  # the last one: there is no target to wait for
        group.history.joined(epoch, 0, None, None, now)
    return Outcome(tuple(records), answers, group.id)


# Answers of the share coordinator


def initialized(
    state: ShardState, group_id: str, keys: tuple[SharePartitionId, ...], now: Now
) -> Outcome[Record]:
    """These partitions have state: members get them at their next heartbeats."""
    group = state.find(group_id)
    if not isinstance(group, ShareGroup) or not keys:
        return Outcome()
    for key in keys:
        group.asked.pop(key, None)
    stored = group.stored
    after = heartbeats.states_after(group, keys)
    if after == stored.states:
        return Outcome()
    records = [after.record(group.id)]
    if stored.members:
        epoch = stored.epoch + 1
        records.append(heartbeats.epoch_record(group.id, epoch, stored.metadata_hash))
        group.history.happened(RebalanceCause(CauseKind.STATE_BEGUN), now)
        if not wait_ms(stored, group.limits, now):
            members = stored.members.values()
            targets = make_targets(stored, members, after, group.topics_port)
            records += heartbeats.target_records(group, targets, epoch, now)
            heartbeats.report_targets(group, targets, epoch, now)
    return Outcome(tuple(records), subject=group.id)


def not_initialized(
    state: ShardState, group_id: str, keys: Iterable[SharePartitionId], now: Now
) -> Outcome[Record]:
    """The share coordinator refused: heartbeats ask again after a while."""
    group = state.active.get(group_id)
    if isinstance(group, ShareGroup):
        for key in keys:
            group.asked.pop(key, None)
        group.retry_ms = now.ms + RETRY_MS
    return Outcome()
