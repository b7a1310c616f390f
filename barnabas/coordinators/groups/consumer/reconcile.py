"""Moves one member a step towards its target, and never gives a partition to two members.

In: the member, its target, who owns what, which partitions the member says it owns. Out: the
member after the step.
Always: a member releases partitions before it gets new ones and before its epoch moves on; a
partition that another member has not released is not assigned, the member waits for it.
Not here: the target (target.py), when a step is taken (heartbeats.py), the states (states.py).
"""

from collections.abc import Callable, Container, Mapping
from uuid import UUID

from barnabas.coordinators.groups.consumer.member import (
    NOTHING,
    ConsumerMember,
    Holdings,
    Target,
)
from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.model.errors import Code, Fenced

Owned = Mapping[UUID, list[int]]
"""By topic: the partitions that a member says it owns."""


def reconciled(
    member: ConsumerMember,
    target: Target,
    target_epoch: int,
    *,
    subscribed: Container[UUID],
    resubscribed: bool,
    is_free: Callable[[UUID, int], bool],
    owned: Owned | None,
) -> ConsumerMember:
    """`owned`: None when the request does not say. `is_free`: no other member has it."""
    match member.state:
        case MemberState.STABLE:
            if member.epoch != target_epoch:
                return _next(member, target, target_epoch, subscribed, is_free, owned)
            return _unsubscribed(member, subscribed, owned) if resubscribed else member
        case MemberState.UNREVOKED:
            if _still_owns(member.revoking, owned):
                return _unsubscribed(member, subscribed, owned) if resubscribed else member
            return _next(member, target, target_epoch, subscribed, is_free, owned)
        case MemberState.UNRELEASED:
            return _next(member, target, target_epoch, subscribed, is_free, owned)
        case _:
            if owned is None or any(owned.values()):
                raise Fenced(
                    Code.FENCED_MEMBER_EPOCH,
                    f"the log has a state of member {member.id!r} that this broker does not know; "
                    "it must release its partitions and rejoin",
                )
            return _next(member, target, target_epoch, subscribed, is_free, owned)


def _next(
    member: ConsumerMember,
    target: Target,
    target_epoch: int,
    subscribed: Container[UUID],
    is_free: Callable[[UUID, int], bool],
    owned: Owned | None,
) -> ConsumerMember:
    keeps: dict[UUID, dict[int, int]] = {}
    revokes: dict[UUID, dict[int, int]] = {}
    for topic_id, held in member.assigned.items():
        wanted = frozenset(target.get(topic_id, ())) if topic_id in subscribed else frozenset()
        for partition, since in held.items():
            into = keeps if partition in wanted else revokes
            into.setdefault(topic_id, {})[partition] = since
    if revokes and _still_owns(revokes, owned):
        return member.moved(member.epoch, MemberState.UNREVOKED, keeps, revokes)
    waits = False
    for topic_id, partitions in target.items():
        if topic_id not in subscribed:
            continue
        held = keeps.get(topic_id, {})
        gets = {}
        for partition in partitions:
            if partition not in held:
                if is_free(topic_id, partition):
                    gets[partition] = target_epoch
                else:
                    waits = True
        if gets:
            keeps[topic_id] = dict(sorted((held | gets).items()))
    state = MemberState.UNRELEASED if waits else MemberState.STABLE
    return member.moved(target_epoch, state, keeps, NOTHING)


def _unsubscribed(
    member: ConsumerMember, subscribed: Container[UUID], owned: Owned | None
) -> ConsumerMember:
    """Partitions of topics that it no longer subscribes to go at once, before the next target."""
    dropped = {t: held for t, held in member.assigned.items() if t not in subscribed}
    if not dropped:
        return member
    keeps = {t: held for t, held in member.assigned.items() if t not in dropped}
    revokes = {t: dict(held) for t, held in member.revoking.items()}
    for topic_id, held in dropped.items():
        revokes.setdefault(topic_id, {}).update(held)
    if _still_owns(revokes, owned):
        return member.moved(member.epoch, MemberState.UNREVOKED, keeps, revokes)
    return member.moved(member.epoch, member.state, keeps, NOTHING)


def _still_owns(revoked: Holdings, owned: Owned | None) -> bool:
    """A member that does not say what it owns has not released anything."""
    if not revoked:
        return False
    if owned is None:
        return True
    return any(
        partition in revoked[topic_id]
        for topic_id, partitions in owned.items()
        if topic_id in revoked
        for partition in partitions
    )
