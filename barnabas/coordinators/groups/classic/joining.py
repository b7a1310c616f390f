"""Decides what a JoinGroup request does to a classic group.

In: JoinGroup of a new member, of one that rejoins, of a static member that is back. Out: answers,
now or at the end of the join phase.
Always: a member that sends the same as before does not cause a rebalance, unless it is the leader.
Not here: the join phase itself (rebalance.py), the other requests (membership.py).
"""

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.classic.causes import cause_of, report_fenced
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.classic.member import ClassicMember, protocol_bytes, protocols_of
from barnabas.coordinators.groups.classic.rebalance import rebalance
from barnabas.coordinators.groups.classic.states import ClassicGroupState
from barnabas.coordinators.groups.history.rebalance_history import CauseKind, difference
from barnabas.coordinators.groups.memory import names_bytes
from barnabas.coordinators.groups.replies import join_refused
from barnabas.coordinators.groups.subscription import topics_of
from barnabas.coordinators.groups.timer_keys import SESSION, TimerKey
from barnabas.coordinators.runtime import Now
from barnabas.coordinators.timers import Timer
from barnabas.model.errors import Code
from barnabas.wire.messages.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9
PENDING_MAX = 10_000  # member ids given out that no member has joined with


def join(
    group: ClassicGroup, request: JoinGroupRequest, caller: Caller, new_id: str, now: Now
) -> None:
    """`new_id`: the id for a member that has none yet."""
    member_id = request.member_id
    if not _has_place(group, member_id):
        group.drop_id(member_id)
        group.answer(caller, join_refused(Code.GROUP_MAX_SIZE_REACHED))
        if group.state is ClassicGroupState.PREPARING:
            rebalance(group, now)
    elif _exceeds_memory(group, request, new_id):
        group.answer(caller, join_refused(Code.COORDINATOR_NOT_AVAILABLE, member_id))
    elif not _supports(group, request):
        group.answer(caller, join_refused(Code.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif not member_id:
        _join_new(group, request, caller, new_id, now)
    elif member_id in group.pending and request.group_instance_id is None:
        _add(group, request, caller, member_id, now)
    else:
        code = group.members.check(member_id, request.group_instance_id)
        if code:
            if code is Code.FENCED_INSTANCE_ID:
                report_fenced(group, member_id, request.group_instance_id, now)
            group.answer(caller, join_refused(code, member_id))
        else:
            _rejoin(group, group.members.by_id[member_id], request, caller, now)


def _join_new(
    group: ClassicGroup, request: JoinGroupRequest, caller: Caller, new_id: str, now: Now
) -> None:
    if request.group_instance_id is not None:
        holder = group.members.by_instance(request.group_instance_id)
        if holder is None:
            _add(group, request, caller, new_id, now)
        else:
            _replace(group, holder, request, caller, new_id, now)
    elif caller.version >= MEMBER_ID_REQUIRED_SINCE and len(group.pending) >= PENDING_MAX:
        group.answer(caller, join_refused(Code.GROUP_MAX_SIZE_REACHED))
    elif caller.version >= MEMBER_ID_REQUIRED_SINCE:
        timer = group.pending[new_id] = Timer(TimerKey(SESSION, group.id, new_id))
        group.timers.set(timer, now.ms + request.session_timeout_ms)
        group.answer(caller, join_refused(Code.MEMBER_ID_REQUIRED, new_id))
    else:
        _add(group, request, caller, new_id, now)


def _add(
    group: ClassicGroup, request: JoinGroupRequest, caller: Caller, id_: str, now: Now
) -> None:
    pending = group.pending.take(id_)
    if pending is not None:
        pending.stop()
    member = ClassicMember.joined(id_, request, caller)
    member.is_new = True
    member.heard_ms = now.ms
    group.members.add(member, request.protocol_type)
    group.members.wait(member, caller)
    group.has_newcomers = True
    group.newcomer_ms = now.ms
    group.timers.set(member.session, now.ms + group.limits.new_member_join_ms)
    group.history.happened(cause_of(CauseKind.JOINED, member, request.reason), now)
    group.history.arrived(member.id, member.client_id, member.client_host, now)
    rebalance(group, now)


def _replace(
    group: ClassicGroup,
    old: ClassicMember,
    request: JoinGroupRequest,
    caller: Caller,
    new_id: str,
    now: Now,
) -> None:
    """A static member is back. A program that still uses its old id is fenced."""
    members = group.members
    leader_before = members.leader
    group.answer_waiting(old, Code.FENCED_INSTANCE_ID, old.id)
    old.session.stop()
    member = ClassicMember.joined(new_id, request, caller)
    member.assignment = old.assignment
    members.replace(old, member)
    if group.unsynced.pop(old.id, 0) is None:
        group.unsynced[member.id] = None
    group.heard(member, now)
    cause = cause_of(CauseKind.REPLACED, member, request.reason)
    if group.state is ClassicGroupState.STABLE and members.vote() == group.protocol:
        # It keeps its assignment: no rebalance, the log gets the new member id.
        group.history.noted(cause, now)
        group.store({each.id: each.assignment for each in members.by_id.values()})
        leads = members.leader == member.id
        skip = leads and caller.version >= SKIP_ASSIGNMENT_SINCE
        response = group.joined_response(member, with_members=skip, skip_assignment=skip)
        if leads and not skip:
            # An old client that is the leader would assign again: it gets the old leader's id.
            response = group.joined_response(member, leader=leader_before)
        group.answer(caller, response)
        return
    members.wait(member, caller)
    group.history.happened(cause, now)
    group.history.arrived(member.id, member.client_id, member.client_host, now)
    rebalance(group, now)


def _rejoin(
    group: ClassicGroup,
    member: ClassicMember,
    request: JoinGroupRequest,
    caller: Caller,
    now: Now,
) -> None:
    unchanged = member.is_unchanged_by(request)
    leads = group.members.leader == member.id
    if (group.state is ClassicGroupState.COMPLETING and unchanged) or (
        group.state is ClassicGroupState.STABLE and unchanged and not leads
    ):
        # It may have missed the first answer: the generation is still the same.
        group.answer(caller, group.joined_response(member, with_members=leads))
        return
    _report_rejoin(group, member, request, now)
    if member.joining is not None:
        group.answer(member.joining, join_refused(Code.REBALANCE_IN_PROGRESS, member.id))
    member.heard_ms = now.ms
    member.connection = caller.connection
    group.members.update(member, request)
    group.members.wait(member, caller)
    group.history.arrived(member.id, member.client_id, member.client_host, now)
    rebalance(group, now)


def _report_rejoin(
    group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest, now: Now
) -> None:
    """A member that rejoins because it was asked to is no cause, even if its metadata changed."""
    if member.resubscribes(request, group.protocol_type):
        before = topics_of(member.protocols.get(group.protocol or "", b""))
        after = topics_of(_metadata(request, group.protocol))
        added, dropped = difference(before, after)
        cause = cause_of(CauseKind.RESUBSCRIBED, member, request.reason, added, dropped)
    elif group.state is ClassicGroupState.PREPARING:
        return
    else:
        leads = group.members.leader == member.id
        kind = CauseKind.LEADER_REJOINED if leads else CauseKind.METADATA_CHANGED
        cause = cause_of(kind, member, request.reason)
    group.history.happened(cause, now)


def _has_place(group: ClassicGroup, member_id: str) -> bool:
    limit = group.limits.members_max
    members = group.members
    member = members.by_id.get(member_id)
    if group.state is ClassicGroupState.PREPARING:
        # Members that have joined again count: a lowered limit refuses the last, not the first.
        has_joined = member is not None and member.joining is not None
        return has_joined or members.joining < limit
    is_empty = group.state is ClassicGroupState.EMPTY
    return is_empty or member is not None or len(members) < limit


def _exceeds_memory(group: ClassicGroup, request: JoinGroupRequest, new_id: str) -> bool:
    """A member stays, as long as its metadata does not grow."""
    size = protocol_bytes(protocols_of(request.protocols))
    member = group.members.by_id.get(request.member_id)
    memory = group.limits.memory
    if member is None:
        return memory.lacks(size + names_bytes(new_id))
    growth = size - protocol_bytes(member.protocols)
    return growth > 0 and memory.lacks(growth)


def _supports(group: ClassicGroup, request: JoinGroupRequest) -> bool:
    members = group.members
    if group.state is ClassicGroupState.EMPTY:
        return bool(request.protocol_type and request.protocols)
    if not members.by_id:
        return bool(request.protocols) and members.protocol_type == request.protocol_type
    names = (protocol.name for protocol in request.protocols)
    return members.supports(request.protocol_type, names)


def _metadata(request: JoinGroupRequest, protocol: str | None) -> bytes:
    return next((bytes(p.metadata) for p in request.protocols if p.name == protocol), b"")
