"""The operations on streams groups: heartbeats, leaving, and deadlines.

In: StreamsGroupHeartbeat, timers that fired. Out: outcomes for the runtime.
Always: a streams group begins with its first member, also in the place of a classic group without
members, whose offsets it keeps; it is never converted while it has members.
Not here: what a heartbeat decides (heartbeats.py), who creates internal topics
(broker/groups/internal_topics.py).
"""

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.history.rebalance_history import CauseKind
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.records import GroupRecord, Record
from barnabas.coordinators.groups.replies import not_of_kind, streams_refused
from barnabas.coordinators.groups.state import ShardState, reply
from barnabas.coordinators.groups.streams import heartbeats
from barnabas.coordinators.groups.streams.group import StreamsGroup
from barnabas.coordinators.groups.streams.member import (
    JOINING,
    LEAVING,
    StreamsMember,
    removal_records,
)
from barnabas.coordinators.groups.streams.stored import StoredStreamsGroup, epoch_record
from barnabas.coordinators.groups.streams.topology import check_topology
from barnabas.coordinators.groups.timer_keys import REVOKE
from barnabas.coordinators.runtime import Now, Outcome, ShardReply
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

AWAY = -2  # only static members, which streams groups do not have


def heartbeat(
    state: ShardState, request: StreamsGroupHeartbeatRequest, caller: Caller, now: Now
) -> Outcome[Record]:
    group = state.active.get(request.group_id)
    if isinstance(group, StreamsGroup):
        unchanged = heartbeats.unchanged(group, request, now)
        if unchanged is not None:
            return Outcome(answers=(ShardReply(caller.token, unchanged),))
    try:
        _check_request(state.limits, request)
        if request.member_epoch == LEAVING:
            return _leave(state, request, caller, now)
        return _heartbeat(state, request, caller, now)
    except KafkaError as error:
        return reply(caller, streams_refused(error.code, error.detail))


def _heartbeat(
    state: ShardState, request: StreamsGroupHeartbeatRequest, caller: Caller, now: Now
) -> Outcome[Record]:
    found = state.find(request.group_id)
    joins = request.member_epoch == JOINING
    if isinstance(found, StreamsGroup):
        records, response = heartbeats.heartbeat(found, request, caller, now)
        return Outcome(tuple(records), (ShardReply(caller.token, response),), found.id)
    if not joins or (found is not None and not _may_be_replaced(found)):
        raise not_of_kind("streams", request.group_id, None if found is None else found.type)
    group = state.new_streams_group(StoredStreamsGroup(request.group_id))
    records, response = heartbeats.heartbeat(group, request, caller, now)
    before: list[Record] = []
    answers = [ShardReply(caller.token, response)]
    if isinstance(found, ClassicGroup):
        if found.id in state.generations:
            before.append(GroupRecord(found.id, None))
        found.end(Code.REBALANCE_IN_PROGRESS)
        answers += found.take().answers
    state.active[group.id] = group
    return Outcome((*before, *records), tuple(answers), group.id)


def _may_be_replaced(found: object) -> bool:
    return isinstance(found, ClassicGroup) and found.is_idle


def _check_request(limits: GroupLimits, request: StreamsGroupHeartbeatRequest) -> None:
    wrong = _not_supported(request) or _malformed(request)
    if wrong is not None:
        raise InvalidRequest(Code.INVALID_REQUEST, wrong)
    if request.topology is not None:
        check_topology(request.topology, limits.member_metadata_bytes_max)


def _not_supported(request: StreamsGroupHeartbeatRequest) -> str | None:
    """As in Kafka 4.3."""
    if request.instance_id is not None:
        return "static membership (group.instance.id) is not supported in streams groups"
    if request.task_offsets is not None or request.task_end_offsets is not None:
        return "offsets of tasks are not supported in streams groups"
    if request.warmup_tasks:
        return "warm-up tasks are not supported in streams groups"
    topology = request.topology
    if topology is not None and any(each.source_topic_regex for each in topology.subtopologies):
        return "patterns of source topics are not supported in streams groups; name the topics"
    return None


def _malformed(request: StreamsGroupHeartbeatRequest) -> str | None:
    epoch = request.member_epoch
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if not request.member_id.strip():
        return "the member id is empty"
    if not request.group_id.strip():
        return "the group id is empty"
    if request.rack_id is not None and not request.rack_id.strip():
        return "the rack id is empty; leave it out"
    if epoch == AWAY:
        return "member epoch -2 (leave and come back) requires a group.instance.id"
    if epoch < AWAY:
        return f"member epoch {epoch} is not valid; expected -1 or more"
    if epoch == JOINING:
        if request.rebalance_timeout_ms == -1:
            return "a member that joins must send its rebalance timeout"
        if any(each is None or each for each in tasks):
            return "a member that joins must send empty lists of tasks"
        if request.topology is None:
            return "a member that joins must send its topology"
    elif request.topology is not None:
        return "only a member that joins may send a topology"
    if any(each is None for each in tasks) and any(each is not None for each in tasks):
        return "active, standby and warm-up tasks must be sent together"
    return None


# Members that are removed


def _leave(
    state: ShardState, request: StreamsGroupHeartbeatRequest, caller: Caller, now: Now
) -> Outcome[Record]:
    group = state.find(request.group_id)
    if not isinstance(group, StreamsGroup):
        raise not_of_kind("streams", request.group_id, None if group is None else group.type)
    member = group.stored.members.get(request.member_id)
    if member is None:
        raise InvalidRequest(
            Code.UNKNOWN_MEMBER_ID,
            f"{request.member_id!r} is not a member of group {group.id!r}",
        )
    if request.shutdown_application:
        group.shutdown_by = member.id
    group.history.happened(group.cause(CauseKind.LEFT, member), now)
    response = StreamsGroupHeartbeatResponse(
        error_code=0,
        member_id=member.id,
        member_epoch=request.member_epoch,
        heartbeat_interval_ms=0,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=[],
        endpoint_information_epoch=0,
    )
    return _remove(group, member, (ShardReply(caller.token, response),), now)


def expired(group: StreamsGroup, kind: str, member_id: str, now: Now) -> Outcome[Record]:
    """The member was silent for its session timeout, or did not release tasks in time."""
    member = group.stored.members.get(member_id)
    if member is None:
        return Outcome()
    cause = group.cause(
        CauseKind.LATE_HEARTBEAT,
        member,
        waited_ms=group.sessions.silent_ms(member_id, now),
        allowed_ms=group.limits.streams_session_timeout_ms,
    )
    if kind == REVOKE:
        allowed_ms = max(0, member.rebalance_timeout_ms)
        cause = group.cause(
            CauseKind.LATE_REVOKE, member, waited_ms=allowed_ms, allowed_ms=allowed_ms
        )
    group.history.happened(cause, now)
    return _remove(group, member, (), now)


def _remove(
    group: StreamsGroup, member: StreamsMember, answers: tuple[ShardReply, ...], now: Now
) -> Outcome[Record]:
    stored = group.stored
    epoch = stored.epoch + 1
    records = removal_records(group.id, member.id)
    records.append(
        epoch_record(group.id, epoch, stored.metadata_hash, stored.validated, stored.standbys or 0)
    )
    group.drop_member(member.id)
    if member.endpoint is not None:
        group.endpoint_epoch += 1
        group.informed.clear()
    if group.size == 1:  # the last one: there is no target to wait for
        group.shutdown_by = None
        group.history.joined(epoch, 0, None, None, now)
    return Outcome(tuple(records), answers, group.id)
