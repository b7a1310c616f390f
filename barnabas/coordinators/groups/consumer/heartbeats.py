"""Decides what a ConsumerGroupHeartbeat does: joining, moving to the target, staying alive.

In: heartbeats, the time. Out: records, responses.
Always: a heartbeat that changes nothing costs the same in a group of any size.
Not here: leaving and deadlines (membership.py), members of the classic protocol
(classic_members.py), the step of one member (step.py).
"""

from dataclasses import replace

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.consumer import gathering
from barnabas.coordinators.groups.consumer.causes import (
    report_conflict,
    report_holder,
    report_step,
)
from barnabas.coordinators.groups.consumer.group import ConsumerGroup, FirstHeartbeat
from barnabas.coordinators.groups.consumer.member import AWAY, JOINING, ConsumerMember
from barnabas.coordinators.groups.consumer.membership import (
    check_growth,
    check_new_member,
    fenced_instance,
)
from barnabas.coordinators.groups.consumer.reconcile import Owned
from barnabas.coordinators.groups.consumer.records import ConsumerRecord
from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.consumer.step import HeartbeatStep
from barnabas.coordinators.groups.replies import consumer_refused
from barnabas.coordinators.groups.timer_keys import TARGET
from barnabas.coordinators.runtime import Now, ShardReply
from barnabas.model.errors import Code, Fenced, InvalidRequest, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

# The heartbeat interval of a member that waits for partitions of others (docs/adr/0017).
WAITING_INTERVAL_MS = 200


def unchanged(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now: Now
) -> ConsumerGroupHeartbeatResponse | None:
    """The response to a heartbeat that changes nothing; None if it may change something."""
    stored = group.stored
    member = stored.members.get(request.member_id)
    if member is None:
        return None
    changes_nothing = (
        request.member_epoch == member.epoch == stored.epoch == stored.target_epoch
        and member.state is MemberState.STABLE
        and request.subscribed_topic_names is None
        and request.topic_partitions is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.rebalance_timeout_ms == -1
        and request.instance_id == member.instance_id
        and member.classic is None
        and not group.topics_stale
    )
    if not changes_nothing:
        return None
    group.heard(member, now)
    if group.contested:
        report_holder(group, member.id, now)
    return ConsumerGroupHeartbeatResponse(
        error_code=0,
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=group.limits.consumer_heartbeat_interval_ms,
    )


def heartbeat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    new_id: str,
    now: Now,
) -> tuple[list[ConsumerRecord], ConsumerGroupHeartbeatResponse | None]:
    """`new_id`: the id for a member that has none. Raises a KafkaError when it is refused.

    No response: the group is new and waits for more members; the response follows when there is a
    target. An empty assignment before it would call the client's rebalance listener.
    """
    owned = owned_by(request)
    try:
        step = _admit(group, request, request.member_id or new_id, owned, now)
    except Fenced as refused:
        report_conflict(group, request, refused.code, caller, now)
        raise
    if group.contested:
        report_holder(group, step.member.id, now)
    described = _described(step.member, request, caller)
    step.describe(
        described, look_again=group.topics_stale, now=now, may_describe=caller.may_describe
    )
    advance(group, step, owned, caller, now)
    has_target = step.target_epoch >= step.epoch
    if group.gathering is not None and not has_target and request.member_epoch == JOINING:
        member_id = step.member.id
        # An earlier first heartbeat of the same member: it has joined again since.
        group.refuse_waiting(member_id, Code.COORDINATOR_NOT_AVAILABLE)
        group.first_heartbeats[member_id] = FirstHeartbeat(request, caller)
        group.sessions.start_timer(TARGET, member_id, now.ms + gathering.wait_ms(group, now))
        return step.records, None
    return step.records, _response(group, step, request, owned, now)


def target_due(
    group: ConsumerGroup, member_id: str, now: Now
) -> tuple[list[ConsumerRecord], tuple[ShardReply, ...]]:
    """Answer a first heartbeat, unless more members have joined and the wait goes on."""
    waiting = group.first_heartbeats.get(member_id)
    if waiting is None:
        return [], ()
    left_ms = gathering.wait_ms(group, now)
    if group.gathering is not None and left_ms > 0:
        group.sessions.start_timer(TARGET, member_id, now.ms + left_ms)
        return [], ()
    del group.first_heartbeats[member_id]
    try:
        records, response = heartbeat(group, waiting.request, waiting.caller, member_id, now)
    except KafkaError as error:
        records, response = [], consumer_refused(error.code, error.detail)
    assert response is not None, "there is a target"
    return records, (ShardReply(waiting.caller.token, response), *group.take_refused())


def _admit(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    owned: Owned | None,
    now: Now,
) -> HeartbeatStep:
    """The step of the member that sent the request, if it may send it."""
    stored = group.stored
    joins = request.member_epoch == JOINING
    instance = request.instance_id
    member = stored.members.get(member_id)
    holder = stored.by_instance(instance)
    replaced = None
    gathers = False
    if instance is not None and holder is not None and holder.id != member_id:
        if not joins:
            raise fenced_instance(holder, member_id, instance)
        if holder.classic is None and holder.epoch != AWAY:
            raise Fenced(
                Code.UNRELEASED_INSTANCE_ID,
                f"instance id {instance!r} is still held by member {holder.id!r}; "
                "it must leave first",
            )
        replaced = holder
    if member is None and replaced is None:
        if not joins:
            raise InvalidRequest(
                Code.UNKNOWN_MEMBER_ID,
                f"{member_id!r} is not a member of group {group.id!r}; it must join",
            )
        names = request.subscribed_topic_names or ()
        check_new_member(group, sum(map(len, names)))
        gathers = gathering.begin(group, now)
    elif member is not None:
        _check_epoch(member, request.member_epoch, owned)
        if request.subscribed_topic_names is not None:
            names = request.subscribed_topic_names
            check_growth(group, sum(map(len, names)) - sum(map(len, member.topics)))
    member = member or ConsumerMember(member_id)
    return HeartbeatStep(stored, group.limits, group.topics_port, member, replaced, gathers=gathers)


def advance(
    group: ConsumerGroup, step: HeartbeatStep, owned: Owned | None, caller: Caller, now: Now
) -> None:
    """The target if it is due, the member's move towards it, its timers, and the history."""
    if group.gathering is not None and step.is_new:
        group.gathering = (group.gathering[0], now.ms)
    step.retarget(now, wait=gathering.wait_ms(group, now) > 0)
    if step.targets is not None:
        group.gathering = None
    step.reconcile(owned)
    group.topics_stale = False
    if step.replaced is not None:
        group.drop_member(step.replaced.id)
    member = step.member
    group.heard(member, now)
    group.sessions.connected(member.id, caller.connection)
    if member != step.began or step.is_new:
        group.watch_revocation(member, now)
    report_step(group, step, now)


def _response(
    group: ConsumerGroup,
    step: HeartbeatStep,
    request: ConsumerGroupHeartbeatRequest,
    owned: Owned | None,
    now: Now,
) -> ConsumerGroupHeartbeatResponse:
    member = step.member
    is_complete = (
        owned is not None
        and request.rebalance_timeout_ms != -1
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
    )
    assignment = None
    joins = request.member_epoch == JOINING
    if joins or is_complete or member.assigned != step.began.assigned:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in member.assigned.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=0,
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=_interval_ms(group, step, now),
        assignment=assignment,
    )


def _interval_ms(group: ConsumerGroup, step: HeartbeatStep, now: Now) -> int:
    """Shorter while the member waits for a target or for partitions of others."""
    interval_ms = group.limits.consumer_heartbeat_interval_ms
    if step.epoch > step.target_epoch:
        return min(interval_ms, max(gathering.wait_ms(group, now), 1))
    if step.member.state is MemberState.UNRELEASED:
        return min(interval_ms, WAITING_INTERVAL_MS)
    return interval_ms


def owned_by(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    """The partitions that the member says it owns; None when it does not say."""
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def _described(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """Fields that the request leaves out stay as they were."""
    topics = member.topics
    if request.subscribed_topic_names is not None:
        topics = tuple(sorted(set(request.subscribed_topic_names)))
    regex = request.subscribed_topic_regex
    timeout = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack=request.rack_id or member.rack,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=topics,
        regex=member.regex if regex is None else regex,
        assignor=request.server_assignor or member.assignor,
        classic=None,
    )


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """A member that missed the last response is one epoch behind, and owns no partition that was
    not assigned to it."""
    if epoch in (JOINING, member.epoch):
        return
    missed_one = (
        epoch == member.previous_epoch
        and epoch < member.epoch
        and owned is not None
        and all(
            partition in member.assigned.get(topic_id, ())
            for topic_id, partitions in owned.items()
            for partition in partitions
        )
    )
    if not missed_one:
        raise Fenced(
            Code.FENCED_MEMBER_EPOCH,
            f"member {member.id!r} is at epoch {member.epoch}, not {epoch}; it must release its "
            "partitions and rejoin",
        )
