"""Moves one member a step towards its target, and never makes a task active at two members.

In: the member, its target, who has what, which tasks the member says it owns. Out: the member after
the step.
Always: a member releases tasks before it gets new ones and before its epoch moves on; a task that
another member has not released is not assigned, the member waits for it. A process has a task once,
active or standby.
Not here: the target (target.py), when a step is taken (heartbeats.py), the states
(groups/consumer/states.py).
"""

from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.streams.member import StreamsMember
from barnabas.coordinators.groups.streams.stored import StoredStreamsGroup
from barnabas.coordinators.groups.streams.tasks import (
    NO_TASKS,
    HeldTasks,
    OwnedTasks,
    TargetOfTasks,
    by_subtopology,
    ids,
    with_epochs,
)
from barnabas.model.errors import Code, Fenced


def reconciled(
    stored: StoredStreamsGroup,
    member: StreamsMember,
    target: TargetOfTasks,
    target_epoch: int,
    owned: OwnedTasks | None,
) -> StreamsMember:
    """`owned`: None when the request does not say."""
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
        case MemberState.UNREVOKED:
            if _still_owns(member.revoking, owned):
                return member
        case MemberState.UNKNOWN:
            if owned is None or owned.active or owned.standby:
                raise Fenced(
                    Code.FENCED_MEMBER_EPOCH,
                    f"the log has a state of member {member.id!r} that this broker does not know; "
                    "it must release its tasks and rejoin",
                )
    return _next(stored, member, target, target_epoch, owned)


def _next(
    stored: StoredStreamsGroup,
    member: StreamsMember,
    target: TargetOfTasks,
    target_epoch: int,
    owned: OwnedTasks | None,
) -> StreamsMember:
    held_active = {
        task: member.assigned.active[task.subtopology][task.partition]
        for task in member.assigned.active_ids()
    }
    held_standby = {*member.assigned.standby_ids()}
    wanted_active, wanted_standby = [*ids(target.active)], [*ids(target.standby)]
    active = {task: held_active[task] for task in wanted_active if task in held_active}
    standby = held_standby.intersection(wanted_standby)
    revokes = HeldTasks(
        with_epochs({task: since for task, since in held_active.items() if task not in active}),
        by_subtopology(held_standby - standby),
    )
    if _still_owns(revokes, owned):
        keeps = HeldTasks(with_epochs(active), by_subtopology(standby))
        return member.moved(member.epoch, MemberState.UNREVOKED, keeps, revokes)
    waits = False
    for task in wanted_active:
        if task not in active:
            if stored.is_free_as_active(task, member):
                active[task] = target_epoch
            else:
                waits = True
    for task in wanted_standby:
        if task not in standby:
            if stored.is_free_as_standby(task, member):
                standby.add(task)
            else:
                waits = True
    state = MemberState.UNRELEASED if waits else MemberState.STABLE
    has = HeldTasks(with_epochs(active), by_subtopology(standby))
    return member.moved(target_epoch, state, has, NO_TASKS)


def _still_owns(revoked: HeldTasks, owned: OwnedTasks | None) -> bool:
    """A member that does not say what it owns has not released anything."""
    return bool(revoked) and (owned is None or owned.has_any(revoked))
