"""Serves members of the classic protocol in a consumer group: a rolling upgrade, half way.

In: JoinGroup, SyncGroup, Heartbeat of such members. Out: records, responses.
Always: to such a member a target is a generation with another leader: its heartbeat is answered
REBALANCE_IN_PROGRESS when there is a new target, it joins with the partitions it owns, and gets its
assignment by SyncGroup. A member that does not send them within its rebalance timeout is removed.
Not here: turning whole groups (groups/migration.py).
"""

from dataclasses import replace

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.consumer import gathering
from barnabas.coordinators.groups.consumer.causes import report_step
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.consumer.heartbeats import advance
from barnabas.coordinators.groups.consumer.member import ClassicSide, ConsumerMember
from barnabas.coordinators.groups.consumer.membership import (
    check_growth,
    check_new_member,
    fenced_instance,
)
from barnabas.coordinators.groups.consumer.reconcile import Owned
from barnabas.coordinators.groups.consumer.records import ConsumerRecord
from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.consumer.step import HeartbeatStep
from barnabas.coordinators.groups.consumer.target import as_consumer_protocol
from barnabas.coordinators.groups.subscription import CONSUMER, subscription_of, version_of
from barnabas.coordinators.groups.timer_keys import JOIN, SYNC
from barnabas.coordinators.groups.topics import TopicsPort
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def check_protocols(
    group: ConsumerGroup, request: JoinGroupRequest
) -> ConsumerProtocolSubscription:
    """The subscription of a member that joins; an error if its protocols do not fit the group."""
    stored = group.stored
    if request.protocol_type == CONSUMER and request.protocols:
        member = stored.members.get(request.member_id)
        own = None if member is None else member.classic
        names = () if own is None else [name for name, _ in own.protocols]
        others = stored.classic - (own is not None)
        is_shared = any(
            stored.by_protocol.get(protocol.name, 0) - (protocol.name in names) == others
            for protocol in request.protocols
        )
        subscription = subscription_of(request.protocols[0].metadata)
        if is_shared and subscription is not None:
            return subscription
    raise InvalidRequest(
        Code.INCONSISTENT_GROUP_PROTOCOL,
        f"group {group.id!r} has protocol type 'consumer', and a member must support an "
        "assignor that all classic members support; this one sent type "
        f"{request.protocol_type!r} with {len(request.protocols)} assignors",
    )


def join(
    group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, member_id: str, now: Now
) -> tuple[list[ConsumerRecord], JoinGroupResponse]:
    """`member_id`: its own, or a new one."""
    subscription = check_protocols(group, request)
    stored = group.stored
    replaced = _replaced_by(group, request)
    size = sum(len(protocol.name) + len(protocol.metadata) for protocol in request.protocols)
    before = stored.members.get(member_id) or replaced
    if before is None:
        check_new_member(group, size)
    else:
        check_growth(group, size - before.metadata_bytes())
    member = stored.members.get(member_id) or ConsumerMember(member_id)
    step = HeartbeatStep(stored, group.limits, group.topics_port, member, replaced)
    described = _described(step.member, request, subscription, caller)
    step.describe(
        described, look_again=group.topics_stale, now=now, may_describe=caller.may_describe
    )
    advance(group, step, _owned(subscription, group.topics_port), caller, now)
    group.sessions.stop_timer(JOIN, member_id)
    group.sessions.start_timer(SYNC, member_id, now.ms + max(0, described.rebalance_timeout_ms))
    response = JoinGroupResponse(
        error_code=0,
        generation_id=step.member.epoch,
        protocol_type=CONSUMER,
        protocol_name=request.protocols[0].name,
        leader="",
        member_id=member_id,
        members=[],
    )
    return step.records, response


def _replaced_by(group: ConsumerGroup, request: JoinGroupRequest) -> ConsumerMember | None:
    """The member that has the instance id of the request, under another member id."""
    instance = request.group_instance_id
    holder = group.stored.by_instance(instance)
    if instance is None or (holder is not None and holder.id == request.member_id):
        return None
    if request.member_id:
        if holder is None:
            raise InvalidRequest(
                Code.UNKNOWN_MEMBER_ID, f"no member of the group has instance id {instance!r}"
            )
        raise fenced_instance(holder, request.member_id, instance)
    return holder


def sync(group: ConsumerGroup, request: SyncGroupRequest, now: Now) -> SyncGroupResponse:
    member = _classic_member(group, request.member_id, request.group_instance_id)
    classic = member.classic
    assert classic is not None
    name, metadata = classic.protocols[0]
    _check_generation(member, request.generation_id)
    if (request.protocol_type or CONSUMER) != CONSUMER or (request.protocol_name or name) != name:
        raise InvalidRequest(
            Code.INCONSISTENT_GROUP_PROTOCOL,
            f"the member joined with protocol type {CONSUMER!r} and protocol {name!r}; it must "
            "send the same in SyncGroup",
        )
    has_new_target = group.stored.target_epoch > member.epoch
    if has_new_target and member.state is not MemberState.UNREVOKED:
        _expect_join(group, member, now)
        raise InvalidRequest(Code.REBALANCE_IN_PROGRESS, "there is a new assignment; join again")
    group.sessions.stop_timer(SYNC, member.id)
    group.heard(member, now)
    assigned = {t: tuple(sorted(held)) for t, held in member.assigned.items()}
    return SyncGroupResponse(
        error_code=0,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=as_consumer_protocol(assigned, group.topics_port, version_of(metadata)),
    )


def heartbeat(
    group: ConsumerGroup, request: HeartbeatRequest, caller: Caller, now: Now
) -> tuple[list[ConsumerRecord], Code]:
    """Also computes a target that is due: the group may have only classic members."""
    stored = group.stored
    member = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    group.heard(member, now)
    records: list[ConsumerRecord] = []
    if group.topics_stale or stored.epoch > stored.target_epoch:
        step = HeartbeatStep(stored, group.limits, group.topics_port, member)
        step.describe(
            member, look_again=group.topics_stale, now=now, may_describe=caller.may_describe
        )
        step.retarget(now, wait=gathering.wait_ms(group, now) > 0)
        if step.targets is not None:
            group.gathering = None
        group.topics_stale = False
        report_step(group, step, now)
        records = step.records
    if _must_rejoin(group, member):
        _expect_join(group, member, now)
        return records, Code.REBALANCE_IN_PROGRESS
    return records, Code.NONE


def identified(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """The member that leaves, or that an administrator removes, by LeaveGroup."""
    instance = identity.group_instance_id
    if instance is None:
        member = group.stored.members.get(identity.member_id)
    else:
        member = group.stored.by_instance(instance)
        if member is not None and identity.member_id not in ("", member.id):
            raise fenced_instance(member, identity.member_id, instance)
    if member is None:
        raise InvalidRequest(
            Code.UNKNOWN_MEMBER_ID,
            f"{identity.member_id or instance!r} is not a member of group {group.id!r}",
        )
    return member


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.epoch < group.stored.target_epoch or member.state is MemberState.UNREVOKED:
        return True
    return member.state is MemberState.UNRELEASED and not _waits_for_others(group, member)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    return any(
        (topic_id, partition) in group.stored.owners
        for topic_id, partitions in group.stored.target(member.id).items()
        for partition in partitions
        if partition not in member.assigned.get(topic_id, ())
    )


def _expect_join(group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    if member.id in group.sessions and not group.sessions.is_timer_set(JOIN, member.id):
        group.sessions.start_timer(JOIN, member.id, now.ms + max(0, member.rebalance_timeout_ms))


def _classic_member(group: ConsumerGroup, member_id: str, instance: str | None) -> ConsumerMember:
    identity = MemberIdentity(member_id=member_id, group_instance_id=instance)
    member = identified(group, identity)
    if member.classic is None or member.id != member_id:
        raise InvalidRequest(
            Code.UNKNOWN_MEMBER_ID, f"member {member.id!r} does not use the classic protocol"
        )
    return member


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise InvalidRequest(
            Code.ILLEGAL_GENERATION,
            f"member {member.id!r} is in generation {member.epoch}, not {generation}",
        )


def _described(
    member: ConsumerMember,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    caller: Caller,
) -> ConsumerMember:
    timeout = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack=subscription.rack_id or member.rack,
        rebalance_timeout_ms=request.session_timeout_ms if timeout < 0 else timeout,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        classic=ClassicSide(
            request.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        ),
    )


def _owned(subscription: ConsumerProtocolSubscription, topics: TopicsPort) -> Owned:
    return {
        found.topic_id: topic.partitions
        for topic in subscription.owned_partitions
        if (found := topics.find(topic.topic)) is not None
    }
