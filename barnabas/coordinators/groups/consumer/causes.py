"""Reports to the history of a consumer group what its members did.

In: a group, a member or its heartbeat step, what happened. Out: causes and notes in the history.
Always: a member that has reached the target is reported once per target.
Not here: the history itself (history/rebalance_history.py).
"""

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.consumer.member import ConsumerMember
from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.consumer.step import HeartbeatStep
from barnabas.coordinators.groups.consumer.target import named_partitions
from barnabas.coordinators.groups.history.rebalance_history import (
    CauseKind,
    RebalanceCause,
    difference,
)
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

REASON_CHARS_MAX = 255


def cause_of(
    group: ConsumerGroup,
    kind: CauseKind,
    member: ConsumerMember,
    reason: str = "",
    topics: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
) -> RebalanceCause:
    """`topics`: those that were added to the subscription, and those that were dropped."""
    return RebalanceCause(
        kind,
        member.id,
        member.client_id,
        member.client_host,
        reason[:REASON_CHARS_MAX],
        allowed_ms=max(0, member.rebalance_timeout_ms),
        topics_added=topics[0],
        topics_dropped=topics[1],
        instance=member.instance_id or "",
        connection=group.sessions.connection(member.id),
    )


def report_left(group: ConsumerGroup, member: ConsumerMember, reason: str | None, now: Now) -> None:
    group.history.happened(cause_of(group, CauseKind.LEFT, member, reason or ""), now)


def report_empty(group: ConsumerGroup, now: Now) -> None:
    """The last member is removed: there is no target to wait for."""
    group.history.joined(group.stored.epoch + 1, 0, None, None, now)


def report_conflict(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    code: Code,
    caller: Caller,
    now: Now,
) -> None:
    """A second program uses an instance id. A member that died may come back before its session
    ends: there are two programs only if the holder sends a heartbeat again (`report_holder`)."""
    holder = group.stored.by_instance(request.instance_id)
    if holder is None or code not in (Code.UNRELEASED_INSTANCE_ID, Code.FENCED_INSTANCE_ID):
        return
    other = RebalanceCause(
        CauseKind.FENCED,
        request.member_id,
        caller.client_id,
        caller.client_host,
        instance=request.instance_id or "",
    )
    if code is Code.FENCED_INSTANCE_ID:
        group.history.noted(other, now)
    else:
        group.contested[holder.id] = other


def report_holder(group: ConsumerGroup, member_id: str, now: Now) -> None:
    """The holder of an instance id that another program asked for is alive."""
    other = group.contested.pop(member_id, None)
    if other is not None:
        group.history.noted(other, now)


def report_step(group: ConsumerGroup, step: HeartbeatStep, now: Now) -> None:
    """What one heartbeat changed: a new epoch, a new target, a member that has reached it."""
    member, history = step.member, group.history
    if step.bumped:
        topics = difference(step.began.topics, member.topics)
        if step.is_new:
            history.happened(cause_of(group, CauseKind.JOINED, member), now)
        elif step.resubscribed:
            cause = cause_of(group, CauseKind.RESUBSCRIBED, member, topics=topics)
            history.happened(cause, now)
        else:
            history.happened(RebalanceCause(CauseKind.PARTITIONS_CHANGED), now)
    elif step.replaced is not None:
        history.noted(cause_of(group, CauseKind.REPLACED, member), now)
    if step.targets is not None:
        group.behind = dict.fromkeys(step.targets)
        history.joined(step.epoch, len(step.targets), step.assignor, None, now)
    if group.behind and step.epoch == step.target_epoch:
        _report_reached(group, step, now)


def _report_reached(group: ConsumerGroup, step: HeartbeatStep, now: Now) -> None:
    member = step.member
    if not member.has_reached(step.target_epoch) or member.id not in group.behind:
        return
    del group.behind[member.id]
    if step.began.state is not MemberState.UNRELEASED:  # else other members were late
        group.history.arrived(member.id, member.client_id, member.client_host, now)
    if not group.behind:
        targets = group.stored.targets if step.targets is None else step.targets
        assignments = {
            member_id: tuple(named_partitions(target, group.topics_port))
            for member_id, target in targets.items()
        }
        group.history.assigned(assignments, now)
