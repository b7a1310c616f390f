"""Requests about groups: members, descriptions, deletions, coordinators."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.authorization.answers import Handle, after, changed
from barnabas.broker.authorization.requester import GROUP, Requester
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.security.acl.rules import AclOperation
from barnabas.wire.messages import (
    consumer_group_heartbeat,
    delete_groups,
    describe_group_history,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    sync_group,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

DENIED = Code.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = Code.TOPIC_AUTHORIZATION_FAILED
NULL_PROTOCOL_SINCE = 7
SEVERAL_KEYS_SINCE = 4
FIND_GROUP, FIND_TRANSACTION = 0, 1


def member_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """Requests of members: READ on the group."""
    if caller.group(AclOperation.READ, request.group_id):
        return handle(broker, request, seeing(call, caller))
    if isinstance(request, join_group.JoinGroupRequest):
        return join_group.JoinGroupResponse(
            error_code=DENIED,
            protocol_name=None if call.version >= NULL_PROTOCOL_SINCE else "",
            leader="",
            member_id="",
            members=[],
        )
    if isinstance(request, sync_group.SyncGroupRequest):
        return sync_group.SyncGroupResponse(error_code=DENIED, assignment=b"")
    if isinstance(request, leave_group.LeaveGroupRequest):
        return leave_group.LeaveGroupResponse(error_code=DENIED)
    assert isinstance(request, heartbeat.HeartbeatRequest)
    return heartbeat.HeartbeatResponse(error_code=DENIED)


def seeing(call: Call, caller: Requester) -> Call:
    """The handler sees only topics that the client may describe."""

    def may_describe(name: str) -> bool:
        return caller.topic(AclOperation.DESCRIBE, name, quiet=True)

    return Call(call.version, call.connection, call.client_id, may_describe)


def consumer_group_heartbeat_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """READ on the group, and DESCRIBE on every topic that it names."""
    code = heartbeat_denied(request, caller)
    if not code:
        return handle(broker, request, seeing(call, caller))
    return consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=code.text, member_epoch=0, heartbeat_interval_ms=0
    )


def heartbeat_denied(request: Any, caller: Requester) -> Code:
    """READ on the group, and DESCRIBE on every topic that the heartbeat names: NONE, or what is
    denied.
    """
    if not caller.group(AclOperation.READ, request.group_id):
        return DENIED
    names = request.subscribed_topic_names or ()
    if not all(caller.topic(AclOperation.DESCRIBE, name) for name in names):
        return TOPIC_DENIED
    return Code.NONE


def describe_groups_check(
    handle: Handle,
    broker: "Broker",
    request: describe_groups.DescribeGroupsRequest,
    call: Call,
    caller: Requester,
) -> Any:
    refused = [
        describe_groups.DescribedGroup(
            error_code=DENIED,
            group_id=group,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=[],
        )
        for group in request.groups
        if not caller.group(AclOperation.DESCRIBE, group)
    ]

    def finish(
        response: describe_groups.DescribeGroupsResponse,
    ) -> describe_groups.DescribeGroupsResponse:
        groups = response.groups
        if request.include_authorized_operations:
            groups = [_with_operations(group, caller) for group in groups]
        return changed(response, groups=refused + groups)

    names = {each.group_id for each in refused}
    allowed = [group for group in request.groups if group not in names]
    return after(handle(broker, changed(request, groups=allowed), call), finish)


def _with_operations(group: Any, caller: Requester) -> Any:
    if group.error_code:
        return group
    return changed(group, authorized_operations=caller.operations(GROUP, group.group_id))


class GroupDescription(NamedTuple):
    """What differs between the kinds of groups: the topics in a description, and a refusal."""

    topics: Callable[[Any], Iterable[str]]
    refused: Callable[[str, Code, str | None], Any]


def describe_check(
    handle: Handle,
    broker: "Broker",
    request: Any,
    call: Call,
    caller: Requester,
    described: GroupDescription,
) -> Any:
    """A group with a topic that the client may not describe is refused as a whole."""

    def seen(group: Any) -> Any:
        names = dict.fromkeys(described.topics(group))
        if not all(caller.topic(AclOperation.DESCRIBE, name, named=False) for name in names):
            why = "the group has topics that the client may not describe"
            return described.refused(group.group_id, TOPIC_DENIED, why)
        return _with_operations(group, caller) if request.include_authorized_operations else group

    may = {
        group: caller.group(AclOperation.DESCRIBE, group)
        for group in dict.fromkeys(request.group_ids)
    }
    refusals = [
        described.refused(group, DENIED, None) for group in request.group_ids if not may[group]
    ]
    allowed = [group for group in request.group_ids if may[group]]
    return after(
        handle(broker, changed(request, group_ids=allowed), call),
        lambda response: changed(response, groups=[*refusals, *map(seen, response.groups)]),
    )


def consumer_group_describe_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    from barnabas.broker.handlers.consumer_group_describe import refused

    def topics(group: Any) -> Iterable[str]:
        return (
            each.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for each in assignment.topic_partitions
        )

    return describe_check(handle, broker, request, call, caller, GroupDescription(topics, refused))


def list_groups_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """DESCRIBE on the cluster shows all; else those that may be described."""
    if caller.cluster(AclOperation.DESCRIBE, quiet=True):
        return handle(broker, request, call)

    def finish(response: list_groups.ListGroupsResponse) -> list_groups.ListGroupsResponse:
        describe = AclOperation.DESCRIBE
        groups = [
            each for each in response.groups if caller.group(describe, each.group_id, quiet=True)
        ]
        return changed(response, groups=groups)

    return after(handle(broker, request, call), finish)


def delete_groups_check(
    handle: Handle,
    broker: "Broker",
    request: delete_groups.DeleteGroupsRequest,
    call: Call,
    caller: Requester,
) -> Any:
    may = {
        group: caller.group(AclOperation.DELETE, group)
        for group in dict.fromkeys(request.groups_names)
    }
    refusals = [
        delete_groups.DeletableGroupResult(group_id=group, error_code=DENIED)
        for group, allowed in may.items()
        if not allowed
    ]
    allowed = [group for group in request.groups_names if may[group]]
    if not allowed:
        return delete_groups.DeleteGroupsResponse(results=refusals)
    return after(
        handle(broker, changed(request, groups_names=allowed), call),
        lambda response: changed(response, results=response.results + refusals),
    )


def describe_group_history_check(
    handle: Handle,
    broker: "Broker",
    request: describe_group_history.DescribeGroupHistoryRequest,
    call: Call,
    caller: Requester,
) -> Any:
    """Our own API. Topics that may not be described are left out."""

    def visible(name: str) -> bool:
        return caller.topic(AclOperation.DESCRIBE, name, quiet=True)

    def seen_cause(cause: Any) -> Any:
        return changed(
            cause,
            topics_added=[name for name in cause.topics_added if visible(name)],
            topics_dropped=[name for name in cause.topics_dropped if visible(name)],
        )

    def seen_rebalance(rebalance: Any) -> Any:
        moves = rebalance.moves
        if moves is not None:
            moves = [each for each in moves if visible(each.topic)]
        return changed(rebalance, moves=moves, causes=list(map(seen_cause, rebalance.causes)))

    def seen(group: Any) -> Any:
        return changed(
            group,
            partitions=[each for each in group.partitions if visible(each.topic)],
            rebalances=list(map(seen_rebalance, group.rebalances)),
            notes=[changed(note, cause=seen_cause(note.cause)) for note in group.notes],
        )

    def finish(response: Any) -> Any:
        return changed(response, groups=refusals + list(map(seen, response.groups)))

    refusals = [
        describe_group_history.GroupHistory(
            error_code=DENIED,
            error_message=DENIED.text,
            group_id=group,
            now_ms=broker.clock.wall_ms(),
            generation=-1,
            members=[],
            partitions=[],
            rebalances=[],
            notes=[],
        )
        for group in request.group_ids
        if not caller.group(AclOperation.DESCRIBE, group)
    ]
    names = {each.group_id for each in refusals}
    allowed = [group for group in request.group_ids if group not in names]
    return after(handle(broker, changed(request, group_ids=allowed), call), finish)


def find_coordinator_check(
    handle: Handle,
    broker: "Broker",
    request: find_coordinator.FindCoordinatorRequest,
    call: Call,
    caller: Requester,
) -> Any:
    code = DENIED
    if request.key_type == FIND_TRANSACTION:
        code = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif request.key_type != FIND_GROUP:
        code = Code.CLUSTER_AUTHORIZATION_FAILED

    def may(key: str) -> bool:
        describe = AclOperation.DESCRIBE
        if request.key_type == FIND_GROUP:
            return caller.group(describe, key)
        if request.key_type == FIND_TRANSACTION:
            return caller.transactional_id(describe, key)
        return caller.cluster(AclOperation.CLUSTER_ACTION)

    if call.version < SEVERAL_KEYS_SINCE:
        if may(request.key):
            return handle(broker, request, call)
        return find_coordinator.FindCoordinatorResponse(
            error_code=code, error_message=code.text, node_id=-1, host="", port=-1
        )
    allowed, refusals = [], []
    for key in request.coordinator_keys:
        if may(key):
            allowed.append(key)
        else:
            refusals.append(
                find_coordinator.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code)
            )
    if not allowed:
        return find_coordinator.FindCoordinatorResponse(coordinators=refusals)
    return after(
        handle(broker, changed(request, coordinator_keys=allowed), call),
        lambda response: changed(response, coordinators=response.coordinators + refusals),
    )
