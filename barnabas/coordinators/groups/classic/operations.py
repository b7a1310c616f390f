"""The operations of the classic protocol, on groups of either protocol.

In: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. Out: outcomes for the runtime.
Always: a consumer group that has members serves classic members too.
Not here: what a classic group decides (joining.py, membership.py), classic members of a consumer
group (consumer/classic_members.py).
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.classic import joining, membership
from barnabas.coordinators.groups.classic.joining import MEMBER_ID_REQUIRED_SINCE
from barnabas.coordinators.groups.classic.rebalance import rebalance
from barnabas.coordinators.groups.consumer import classic_members
from barnabas.coordinators.groups.consumer.causes import report_left
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.consumer.member import ConsumerMember
from barnabas.coordinators.groups.consumer.membership import check_new_member
from barnabas.coordinators.groups.consumer.operations import (
    may_downgrade,
    remove_members,
    turned_classic,
)
from barnabas.coordinators.groups.consumer.records import ConsumerRecord
from barnabas.coordinators.groups.records import Record
from barnabas.coordinators.groups.replies import join_refused, sync_refused
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.state import ShardState, and_reply, reply
from barnabas.coordinators.runtime import Now, Outcome, ShardReply
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from barnabas.coordinators.groups.streams.group import StreamsGroup

LEAVE_SEVERAL_SINCE = 3
MEMBER_ID_BYTES_MAX = 32_767  # of any string on the wire; a member id begins with its client id

_HEARTBEATS = {
    code: HeartbeatResponse(error_code=code)
    for code in (
        Code.NONE,
        Code.REBALANCE_IN_PROGRESS,
        Code.ILLEGAL_GENERATION,
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_INSTANCE_ID,
        Code.INVALID_GROUP_ID,
    )
}


def join(
    state: ShardState, request: JoinGroupRequest, caller: Caller, uuid: str, now: Now
) -> Outcome[Record]:
    """`uuid`: random text for the id of a member that has none."""
    limits = state.limits
    timeout = request.session_timeout_ms
    size = sum(len(protocol.metadata) for protocol in request.protocols)
    if not request.group_id:
        return reply(caller, join_refused(Code.INVALID_GROUP_ID, request.member_id))
    if not limits.session_timeout_ms_min <= timeout <= limits.session_timeout_ms_max:
        return reply(caller, join_refused(Code.INVALID_SESSION_TIMEOUT, request.member_id))
    if size > limits.member_metadata_bytes_max:
        return reply(caller, join_refused(Code.INVALID_REQUEST, request.member_id))
    new_id = f"{request.group_instance_id or caller.client_id}-{uuid}"
    if len(new_id) > MEMBER_ID_BYTES_MAX or len(new_id.encode()) > MEMBER_ID_BYTES_MAX:
        return reply(caller, join_refused(Code.INVALID_REQUEST, request.member_id))
    group = state.find(request.group_id)
    if isinstance(group, ShareGroup):
        return reply(caller, join_refused(Code.INCONSISTENT_GROUP_PROTOCOL))
    if group is not None and group.type == "streams":
        return _join_streams_group(state, group, request, caller, new_id, now)
    if isinstance(group, ConsumerGroup):
        outcome = _join_consumer_group(state, group, request, caller, new_id, now)
        return replace(outcome, answers=(*outcome.answers, *group.take_refused()))
    if group is None:
        if request.member_id:
            return reply(caller, join_refused(Code.UNKNOWN_MEMBER_ID, request.member_id))
        group = state.new_classic_group(request.group_id)
        state.active[request.group_id] = group
    joining.join(group, request, caller, new_id, now)
    return state.take(group)


def _join_consumer_group(
    state: ShardState,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    caller: Caller,
    new_id: str,
    now: Now,
) -> Outcome[Record]:
    if not group.size:
        return _join_empty_consumer_group(state, group, request, caller, new_id, now)
    try:
        classic_members.check_protocols(group, request)
        if (
            not request.member_id
            and request.group_instance_id is None
            and caller.version >= MEMBER_ID_REQUIRED_SINCE
        ):
            check_new_member(group)
            return reply(caller, join_refused(Code.MEMBER_ID_REQUIRED, new_id))
        holder = None
        if not request.member_id:
            holder = group.stored.by_instance(request.group_instance_id)
        if holder is not None and holder.classic is None and may_downgrade(state, group, [holder]):
            # It replaces the last member of the consumer protocol.
            before, classic = turned_classic(state, group, [holder], now)
            joining.join(classic, request, caller, new_id, now)
            if classic.size > 1:
                rebalance(classic, now)
            outcome = classic.take()
            return replace(outcome, records=(*before, *outcome.records))
        member_id = request.member_id or new_id
        records, response = classic_members.join(group, request, caller, member_id, now)
    except KafkaError as error:
        return reply(caller, join_refused(error.code, request.member_id))
    return Outcome(tuple(records), (ShardReply(caller.token, response),), group.id)


def _join_empty_consumer_group(
    state: ShardState,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    caller: Caller,
    new_id: str,
    now: Now,
) -> Outcome[Record]:
    """It becomes a classic group, whose generations continue after its epochs."""
    if request.member_id:
        return reply(caller, join_refused(Code.UNKNOWN_MEMBER_ID, request.member_id))
    before, classic = turned_classic(state, group, [], now)
    joining.join(classic, request, caller, new_id, now)
    outcome = classic.take()
    return replace(outcome, records=(*before, *outcome.records))


def _join_streams_group(
    state: ShardState,
    group: "StreamsGroup",
    request: JoinGroupRequest,
    caller: Caller,
    new_id: str,
    now: Now,
) -> Outcome[Record]:
    """Without members it becomes a classic group, which has its offsets."""
    if group.size:
        return reply(caller, join_refused(Code.INCONSISTENT_GROUP_PROTOCOL))
    if request.member_id:
        return reply(caller, join_refused(Code.UNKNOWN_MEMBER_ID, request.member_id))
    before = group.stored.tombstones()
    classic = state.new_classic_group(group.id)
    state.active[group.id] = classic
    joining.join(classic, request, caller, new_id, now)
    outcome = classic.take()
    return replace(outcome, records=(*before, *outcome.records))


def sync(state: ShardState, request: SyncGroupRequest, caller: Caller, now: Now) -> Outcome[Record]:
    group = state.find(request.group_id)
    if not request.group_id:
        return reply(caller, sync_refused(Code.INVALID_GROUP_ID))
    if group is None or isinstance(group, ShareGroup) or group.type == "streams":
        return reply(caller, sync_refused(Code.UNKNOWN_MEMBER_ID))
    if isinstance(group, ConsumerGroup):
        try:
            return reply(caller, classic_members.sync(group, request, now))
        except KafkaError as error:
            return reply(caller, sync_refused(error.code))
    membership.sync(group, request, caller, now)
    return state.take(group)


def heartbeat(
    state: ShardState, request: HeartbeatRequest, caller: Caller, now: Now
) -> Outcome[Record]:
    group = state.active.get(request.group_id)
    if group is None or isinstance(group, ShareGroup) or group.type == "streams":
        code = Code.UNKNOWN_MEMBER_ID if request.group_id else Code.INVALID_GROUP_ID
    elif isinstance(group, ConsumerGroup):
        return _heartbeat_consumer_group(group, request, caller, now)
    else:
        code = membership.heartbeat(
            group, request.member_id, request.group_instance_id, request.generation_id, now
        )
    answers = (ShardReply(caller.token, _HEARTBEATS[code]),)
    return Outcome(answers=answers, subject=request.group_id, at_once=True)


def _heartbeat_consumer_group(
    group: ConsumerGroup, request: HeartbeatRequest, caller: Caller, now: Now
) -> Outcome[Record]:
    records: list[ConsumerRecord] = []
    try:
        records, code = classic_members.heartbeat(group, request, caller, now)
    except KafkaError as error:
        code = error.code
    answer = ShardReply(caller.token, _HEARTBEATS[code])
    return Outcome(tuple(records), (answer,), request.group_id, at_once=not records)


def leave(
    state: ShardState, request: LeaveGroupRequest, caller: Caller, now: Now
) -> Outcome[Record]:
    if not request.group_id:
        return reply(caller, LeaveGroupResponse(error_code=Code.INVALID_GROUP_ID))
    several = caller.version >= LEAVE_SEVERAL_SINCE
    identities = request.members
    if not several:
        identities = [MemberIdentity(member_id=request.member_id)]
    group = state.find(request.group_id)
    leaving: dict[str, ConsumerMember] = {}
    if isinstance(group, ShareGroup) or (group is not None and group.type == "streams"):
        group = None
    if group is None:
        codes = [Code.UNKNOWN_MEMBER_ID] * len(identities)
    elif isinstance(group, ConsumerGroup):
        codes = [_leave_consumer_group(group, each, leaving, now) for each in identities]
    else:
        codes = membership.leave(group, identities, now)
    if several:
        response = LeaveGroupResponse(
            error_code=Code.NONE,
            members=[
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=code,
                )
                for identity, code in zip(identities, codes, strict=True)
            ],
        )
    else:
        response = LeaveGroupResponse(error_code=codes[0])
    if isinstance(group, ConsumerGroup):
        answer = ShardReply(caller.token, response)
        return remove_members(state, group, list(leaving.values()), (answer,), now)
    return and_reply(caller, response, None if group is None else state.take(group))


def _leave_consumer_group(
    group: ConsumerGroup, identity: MemberIdentity, leaving: dict[str, ConsumerMember], now: Now
) -> Code:
    try:
        member = classic_members.identified(group, identity)
    except KafkaError as error:
        return error.code
    if member.id not in leaving:
        leaving[member.id] = member
        report_left(group, member, identity.reason, now)
    return Code.NONE
