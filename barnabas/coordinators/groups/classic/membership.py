"""Decides what members of a classic group may do, and when they are removed.

In: SyncGroup, Heartbeat, LeaveGroup, OffsetCommit (whether it is allowed), the end of a session.
Out: answers, error codes.
Always: a request that waits is answered when its phase ends, its member is removed, or the group
ends; a member of an older generation only has to rejoin.
Not here: JoinGroup (joining.py), the phases of a rebalance (rebalance.py).
"""

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.classic import rebalance
from barnabas.coordinators.groups.classic.causes import cause_of, report_fenced, report_late
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.classic.states import ClassicGroupState
from barnabas.coordinators.groups.history.rebalance_history import CauseKind, is_late_poll
from barnabas.coordinators.groups.replies import sync_refused
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest


def sync(group: ClassicGroup, request: SyncGroupRequest, caller: Caller, now: Now) -> None:
    members = group.members
    code = members.check(request.member_id, request.group_instance_id)
    if not code:
        code = _check_sync(group, request)
    if code:
        group.answer(caller, sync_refused(code))
        return
    member = members.by_id[request.member_id]
    group.unsynced.pop(member.id, None)
    if not group.unsynced:
        group.sync_timer.stop()
    if group.state is ClassicGroupState.STABLE:
        group.answer(caller, group.synced_response(member.assignment))
        return
    if member.syncing is not None:
        group.answer(member.syncing, sync_refused(Code.REBALANCE_IN_PROGRESS))
    member.syncing = caller
    if members.leader == member.id:
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        rebalance.assign(group, {id_: given.get(id_, b"") for id_ in members.by_id}, now)


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> Code:
    if request.generation_id != group.generation:
        return Code.ILLEGAL_GENERATION
    protocol_type = group.members.protocol_type
    if (request.protocol_type or protocol_type) != protocol_type or (
        request.protocol_name or group.protocol
    ) != group.protocol:
        return Code.INCONSISTENT_GROUP_PROTOCOL
    preparing = group.state is ClassicGroupState.PREPARING
    return Code.REBALANCE_IN_PROGRESS if preparing else Code.NONE


def heartbeat(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, now: Now
) -> Code:
    code = group.members.check(member_id, instance_id)
    if code:
        if code is Code.FENCED_INSTANCE_ID:
            report_fenced(group, member_id, instance_id, now)
        return code
    if generation != group.generation:
        return Code.ILLEGAL_GENERATION
    member = group.members.by_id[member_id]
    member.heard_ms = now.ms  # as `group.heard`, without a call: this is the most frequent request
    group.timers.set(member.session, now.ms + member.session_timeout_ms)
    preparing = group.state is ClassicGroupState.PREPARING
    return Code.REBALANCE_IN_PROGRESS if preparing else Code.NONE


def check_commit(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
) -> Code:
    """May this member commit offsets? Generation -1 without an id: a program outside the group."""
    if generation < 0 and group.state is ClassicGroupState.EMPTY:
        return Code.NONE
    if generation < 0 and not member_id and instance_id is None:
        return Code.UNKNOWN_MEMBER_ID
    code = group.members.check(member_id, instance_id)
    if code:
        return code
    if generation != group.generation:
        return Code.ILLEGAL_GENERATION
    completing = group.state is ClassicGroupState.COMPLETING
    return Code.REBALANCE_IN_PROGRESS if completing else Code.NONE


def committed(group: ClassicGroup, member_id: str, now: Now) -> None:
    """A commit shows that a member is alive, as a heartbeat does."""
    member = group.members.by_id.get(member_id)
    if member is not None:
        group.heard(member, now)


def leave(group: ClassicGroup, identities: list[MemberIdentity], now: Now) -> list[Code]:
    """One code for each identity."""
    size = len(group.members)
    codes = [_leave_one(group, identity, now) for identity in identities]
    if len(group.members) < size or group.state is ClassicGroupState.PREPARING:
        rebalance.rebalance(group, now)
    return codes


def _leave_one(group: ClassicGroup, identity: MemberIdentity, now: Now) -> Code:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id:  # an administrator removes a static member
        member = group.members.by_instance(instance_id)
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
    elif (pending := group.pending.take(member_id)) is not None:
        pending.stop()
        return Code.NONE
    else:
        code = group.members.check(member_id, instance_id)
        if code:
            return code
        member = group.members.by_id[member_id]
    reason = identity.reason
    if is_late_poll(reason):
        allowed_ms = member.rebalance_timeout_ms
        report_late(group, CauseKind.LATE_POLL, member, allowed_ms, allowed_ms, now)
    else:
        group.history.happened(cause_of(CauseKind.LEFT, member, reason), now)
    group.drop(member, Code.UNKNOWN_MEMBER_ID)
    return Code.NONE


def session_expired(group: ClassicGroup, member_id: str, now: Now) -> None:
    """The member, or the id that was given out, was not used for its session timeout."""
    if group.pending.take(member_id) is None:
        member = group.members.by_id.get(member_id)
        if member is None or member.waits_for_coordinator():
            return
        allowed_ms = member.session_timeout_ms
        if member.joining is not None:
            allowed_ms = group.limits.new_member_join_ms
        silent_ms = now.ms - member.heard_ms
        report_late(group, CauseKind.LATE_HEARTBEAT, member, silent_ms, allowed_ms, now)
        group.drop(member, Code.UNKNOWN_MEMBER_ID)
        if group.state is not ClassicGroupState.PREPARING:
            rebalance.prepare(group, now)
            return
    if group.state is ClassicGroupState.PREPARING and rebalance.all_joined(group):
        rebalance.complete_join(group, now)
