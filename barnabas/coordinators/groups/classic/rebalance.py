"""Takes a classic group from one generation to the next: join phase, sync phase, assignment.

In: members that came or went, deadlines. Out: answers to all members that waited, records.
Always: no member gets an assignment before it is in the log; every phase has a deadline.
Not here: which requests are accepted (joining.py, membership.py), the states (states.py).
"""

from collections.abc import Mapping

from barnabas.coordinators.groups.classic.causes import report_late
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.classic.states import ClassicGroupState
from barnabas.coordinators.groups.history.rebalance_history import CauseKind, RebalanceCause
from barnabas.coordinators.groups.replies import sync_refused
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code

GENERATION_MAX = 0x7FFF_FFFF


def loaded(group: ClassicGroup, now: Now) -> None:
    """Sessions start now. A group that is larger than the limit allows rebalances."""
    group.count_memory()
    for member in group.members.by_id.values():
        group.heard(member, now)
    if len(group.members) > group.limits.members_max:
        group.history.happened(RebalanceCause(CauseKind.OVER_CAPACITY), now)
        prepare(group, now)


def rebalance(group: ClassicGroup, now: Now) -> None:
    """A member came, went or changed: begin a join phase, or end it if it was the last one."""
    if group.state is ClassicGroupState.PREPARING:
        if group.initial_delay is None and all_joined(group):
            complete_join(group, now)
    elif group.state is not ClassicGroupState.EMPTY or group.members.by_id:
        prepare(group, now)


def prepare(group: ClassicGroup, now: Now) -> None:
    """Begin the join phase: every member must join again."""
    if group.state is ClassicGroupState.COMPLETING:
        for member in group.members.by_id.values():
            member.assignment = b""
            if member.syncing is not None:
                group.answer(member.syncing, sync_refused(Code.REBALANCE_IN_PROGRESS))
                member.syncing = None
                group.heard(member, now)
        group.history.interrupted(now)
    group.unsynced.clear()
    group.sync_timer.stop()
    is_first = group.state is ClassicGroupState.EMPTY
    group.move_to(ClassicGroupState.PREPARING, now)
    if is_first:
        delay, longest = _first_wait(group)
        group.initial_delay = (delay, max(0, longest - delay))
        group.has_newcomers = False
        group.timers.set(group.join_timer, now.ms + delay)
    elif all_joined(group):
        complete_join(group, now)
    else:
        group.timers.set(group.join_timer, now.ms + group.members.rebalance_timeout_ms())


def _first_wait(group: ClassicGroup) -> tuple[int, int]:
    """Of the first rebalance: how long it waits at first, and how long at most.

    With a pause it is over when no member has come for so long, after the delay at the latest. A
    delay that is no longer than the pause sets no limit: members that start together would not
    come together.
    """
    limits = group.limits
    longest, delay = group.members.rebalance_timeout_ms(), limits.initial_rebalance_delay_ms
    pause = limits.initial_rebalance_pause_ms
    if not pause:
        return delay, longest
    return min(pause, delay), min(longest, delay) if delay > pause else longest


def _next_wait(group: ClassicGroup, now: Now) -> int:
    """Another member came while the first rebalance waited: how long to wait from now on."""
    pause = group.limits.initial_rebalance_pause_ms
    if not pause:
        return group.limits.initial_rebalance_delay_ms
    return max(1, group.newcomer_ms + pause - now.ms)


def all_joined(group: ClassicGroup) -> bool:
    return not group.pending and group.members.joining == len(group.members)


def complete_join(group: ClassicGroup, now: Now) -> None:
    """The members that have joined are the next generation."""
    group.join_timer.stop()
    members = group.members
    allowed_ms = members.rebalance_timeout_ms()
    for member in members.missing():
        if member.instance_id is None:
            timeout_ms = member.rebalance_timeout_ms
            report_late(group, CauseKind.LATE_JOIN, member, allowed_ms, timeout_ms, now)
            group.drop(member, Code.UNKNOWN_MEMBER_ID)
    if members.by_id and not members.elect():
        # Only static members are left, and none has joined: their sessions decide.
        group.timers.set(group.join_timer, now.ms + members.rebalance_timeout_ms())
        return
    group.initial_delay = None
    group.generation = group.generation % GENERATION_MAX + 1
    group.protocol = members.vote() if members.by_id else None
    group.topics = members.topics(group.protocol)
    group.history.joined(group.generation, len(members), group.protocol, members.leader, now)
    if not members.by_id:
        group.move_to(ClassicGroupState.EMPTY, now)
        group.store({})
        return
    group.move_to(ClassicGroupState.COMPLETING, now)
    for member in members.by_id.values():
        caller = members.end_wait(member)
        if caller is not None:
            leads = members.leader == member.id
            group.answer(caller, group.joined_response(member, with_members=leads))
        member.is_new = False
        group.heard(member, now)
        group.unsynced[member.id] = None
    group.timers.set(group.sync_timer, now.ms + members.rebalance_timeout_ms())


def assign(group: ClassicGroup, assignments: Mapping[str, bytes], now: Now) -> None:
    """The leader has sent the assignment: write it, then answer every member that waits for it."""
    group.store(assignments)
    group.history.assigned(assignments, now)
    for member in group.members.by_id.values():
        if member.syncing is not None:
            group.answer(member.syncing, group.synced_response(assignments[member.id]))
            member.syncing = None
            group.heard(member, now)


# Deadlines


def join_expired(group: ClassicGroup, now: Now) -> None:
    """The join phase has timed out, or the delay of the first rebalance is over."""
    if group.initial_delay is not None:
        delay, left = group.initial_delay
        if group.has_newcomers and left:
            group.has_newcomers = False
            extra = min(_next_wait(group, now), left)
            spent = extra if group.limits.initial_rebalance_pause_ms else delay  # as Kafka counts
            group.initial_delay = (extra, max(0, left - spent))
            group.timers.set(group.join_timer, now.ms + extra)
            return
    complete_join(group, now)


def sync_expired(group: ClassicGroup, now: Now) -> None:
    """Members that have not sent SyncGroup, perhaps the leader, are removed."""
    allowed_ms = group.members.rebalance_timeout_ms()
    for id_ in tuple(group.unsynced):
        member = group.members.by_id[id_]
        report_late(group, CauseKind.LATE_SYNC, member, allowed_ms, allowed_ms, now)
        group.drop(member, Code.UNKNOWN_MEMBER_ID)
    prepare(group, now)
