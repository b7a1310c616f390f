"""The operations of the consumer protocol: heartbeats, and how they change the group's protocol.

In: ConsumerGroupHeartbeat, members to remove. Out: outcomes for the runtime.
Always: a classic group becomes a consumer group when the first member of the consumer protocol
joins, and a classic group again when the last such member is removed and others stay, where the
policy allows it; in the log it is one or the other, in one batch.
Not here: what a consumer group decides (heartbeats.py, membership.py), the classic protocol
(classic/operations.py).
"""

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.classic.rebalance import loaded, rebalance
from barnabas.coordinators.groups.consumer import heartbeats, membership
from barnabas.coordinators.groups.consumer.causes import report_empty, report_left
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.consumer.member import AWAY, JOINING, LEAVING, ConsumerMember
from barnabas.coordinators.groups.consumer.stored import StoredConsumerGroup
from barnabas.coordinators.groups.history.rebalance_history import CauseKind, RebalanceCause
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.migration import downgrade, upgrade
from barnabas.coordinators.groups.records import GroupRecord, Record
from barnabas.coordinators.groups.replies import consumer_refused, not_of_kind
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.state import ShardState, reply
from barnabas.coordinators.groups.subscription import CONSUMER
from barnabas.coordinators.runtime import Now, Outcome, ShardReply
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

OWN_MEMBER_ID_SINCE = 1  # members choose their ids themselves


def heartbeat(
    state: ShardState,
    request: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    uuid: str,
    now: Now,
) -> Outcome[Record]:
    """`uuid`: random text for the id of a member that has none."""
    group = state.active.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        unchanged = heartbeats.unchanged(group, request, now)
        if unchanged is not None:
            return Outcome(answers=(ShardReply(caller.token, unchanged),))
    try:
        _check_request(state.limits, request, caller)
        if request.member_epoch < JOINING:
            return _leave(state, request, caller, now)
        if not isinstance(group, ConsumerGroup):
            return _first_heartbeat(state, request, caller, uuid, now)
        records, response = heartbeats.heartbeat(group, request, caller, uuid, now)
    except KafkaError as error:
        return reply(caller, consumer_refused(error.code, error.detail))
    return Outcome(tuple(records), _answers(group, caller, response), request.group_id)


def _check_request(
    limits: GroupLimits, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> None:
    wrong = None
    epoch = request.member_epoch
    if not request.group_id.strip():
        wrong = "the group id is empty"
    elif not request.member_id.strip() and (
        caller.version >= OWN_MEMBER_ID_SINCE or epoch > JOINING or epoch == LEAVING
    ):
        wrong = "the member id is empty"
    elif request.instance_id is not None and not request.instance_id.strip():
        wrong = "the instance id is empty; leave it out"
    elif request.rack_id is not None and not request.rack_id.strip():
        wrong = "the rack id is empty; leave it out"
    elif epoch < AWAY:
        wrong = f"member epoch {epoch} is not valid; expected -2 or more"
    elif epoch == AWAY and request.instance_id is None:
        wrong = "member epoch -2 (leave and come back) requires a group.instance.id"
    elif epoch == JOINING:
        wrong = _wrong_with_join(request)
    names = request.subscribed_topic_names
    if names is not None and sum(map(len, names)) > limits.member_metadata_bytes_max:
        wrong = (
            f"the names of the {len(names)} subscribed topics have more than"
            f" {limits.member_metadata_bytes_max} characters together"
        )
    if wrong is not None:
        raise InvalidRequest(Code.INVALID_REQUEST, wrong)
    assignor = request.server_assignor
    if assignor is not None and assignor not in limits.consumer_assignors:
        raise InvalidRequest(
            Code.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {assignor[:100]!r}; expected one of "
            + ", ".join(limits.consumer_assignors),
        )


def _wrong_with_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "a member that joins must send its rebalance timeout"
    if request.topic_partitions is None or request.topic_partitions:
        return "a member that joins must send an empty list of owned partitions"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "a member that joins must send its topic names or a topic pattern"
    return None


# New groups, and classic groups that become consumer groups


def _first_heartbeat(
    state: ShardState,
    request: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    uuid: str,
    now: Now,
) -> Outcome[Record]:
    """The group is not active, does not exist, or is a classic one."""
    found = state.find(request.group_id)
    if isinstance(found, ShareGroup) or (found is not None and found.type == "streams"):
        raise not_of_kind("consumer", request.group_id, found.type)
    if isinstance(found, ConsumerGroup):
        records, response = heartbeats.heartbeat(found, request, caller, uuid, now)
        return Outcome(tuple(records), _answers(found, caller, response), found.id)
    if request.member_epoch != JOINING:
        # Clients stop for good when their group is not found. A member that was disconnected while
        # its group became a classic one must rejoin, which converts the group again.
        may_rejoin = found is not None and state.limits.consumer_upgrade
        code = Code.UNKNOWN_MEMBER_ID if may_rejoin else Code.GROUP_ID_NOT_FOUND
        kind = None if found is None else found.type
        raise not_of_kind("consumer", request.group_id, kind, code)
    before: list[Record] = []
    stored = StoredConsumerGroup(request.group_id)
    if found is not None:
        # Epochs continue after the generations: no number is used twice.
        stored.epoch = stored.target_epoch = found.generation
        if found.id in state.generations:
            before.append(GroupRecord(found.id, None))
        if found.size:
            _check_upgrade(state.limits, found)
            upgraded = upgrade(found, state.topics)
            for record in upgraded:
                stored.replay(record)
            before += upgraded
    group = state.new_consumer_group(stored, None if found is None else found.history)
    records, response = heartbeats.heartbeat(group, request, caller, uuid, now)
    answers = list(_answers(group, caller, response))
    if found is not None:
        if found.size:
            found.history.noted(RebalanceCause(CauseKind.CONVERTED), now)
        found.end(Code.REBALANCE_IN_PROGRESS)
        answers += found.take().answers
    group.loaded(now)
    state.active[group.id] = group
    return Outcome((*before, *records), tuple(answers), group.id)


def _check_upgrade(limits: GroupLimits, group: ClassicGroup) -> None:
    why = None
    if not limits.consumer_upgrade:
        why = "group.consumer.migration.policy does not allow it"
    elif group.protocol_type != CONSUMER:
        why = f"its protocol type is {group.protocol_type!r}, not 'consumer'"
    elif group.size > limits.consumer_members_max:
        why = "it has more members than group.consumer.max.size"
    if why is not None:
        raise InvalidRequest(
            Code.GROUP_ID_NOT_FOUND,
            f"group {group.id!r} uses the classic protocol and has members, and cannot change"
            f" to group.protocol=consumer: {why}",
        )


def _answers(
    group: ConsumerGroup, caller: Caller, response: ConsumerGroupHeartbeatResponse | None
) -> tuple[ShardReply, ...]:
    """To the caller, unless it waits for a target, and to members that no longer wait."""
    own = () if response is None else (ShardReply(caller.token, response),)
    return (*own, *group.take_refused())


# Members that are removed, and consumer groups that become classic groups


def _leave(
    state: ShardState, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: Now
) -> Outcome[Record]:
    group = state.find(request.group_id)
    if not isinstance(group, ConsumerGroup):
        raise not_of_kind("consumer", request.group_id, None if group is None else group.type)
    member = membership.leaving(group, request)
    response = ConsumerGroupHeartbeatResponse(
        error_code=0,
        member_id=member.id,
        member_epoch=request.member_epoch,
        heartbeat_interval_ms=0,
    )
    answer = ShardReply(caller.token, response)
    if request.member_epoch == AWAY:
        return Outcome(tuple(membership.away(group, member)), (answer,), group.id)
    report_left(group, member, None, now)
    return remove_members(state, group, [member], (answer,), now)


def remove_members(
    state: ShardState,
    group: ConsumerGroup,
    members: list[ConsumerMember],
    answers: tuple[ShardReply, ...],
    now: Now,
) -> Outcome[Record]:
    """If only classic members stay, the group becomes a classic group."""
    if not members:
        return Outcome(answers=answers)
    stay = group.size - len(members)
    if stay and may_downgrade(state, group, members):
        records, classic = turned_classic(state, group, members, now)
        rebalance(classic, now)
        more = classic.take()
        records += more.records
        answers = (*answers, *more.answers)
    else:
        records = [*membership.remove(group, members)]
        if not stay:
            report_empty(group, now)
    return Outcome(tuple(records), (*answers, *group.take_refused()), group.id)


def may_downgrade(state: ShardState, group: ConsumerGroup, leaving: list[ConsumerMember]) -> bool:
    """May the group become a classic group when these members have left?"""
    limits = state.limits
    stay = group.size - len(leaving)
    classic = group.stored.classic - sum(member.classic is not None for member in leaving)
    return limits.consumer_downgrade and classic == stay and stay <= limits.members_max


def turned_classic(
    state: ShardState, group: ConsumerGroup, leaving: list[ConsumerMember], now: Now
) -> tuple[list[Record], ClassicGroup]:
    """The records, and the classic group, which is active now."""
    records, value = downgrade(group.stored, leaving, state.topics, now)
    group.end(Code.UNKNOWN_MEMBER_ID)
    classic = state.classic_group_of(group.id, value)
    classic.history = group.history
    classic.history.happened(RebalanceCause(CauseKind.CONVERTED), now)
    loaded(classic, now)
    state.active[group.id] = classic
    return records, classic
