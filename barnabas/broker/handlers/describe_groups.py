"""DescribeGroups: state, protocol and members of groups."""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.classic.states import ClassicGroupState
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext

NOT_FOUND_SINCE = 6  # before that, a group that does not exist is a dead one


def handle(broker: "GroupsContext", request: DescribeGroupsRequest, call: Call) -> Reply:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED

    def look() -> DescribeGroupsResponse:
        return DescribeGroupsResponse(
            groups=[_describe(broker, group_id, call, operations) for group_id in request.groups]
        )

    return coordination(broker).look(look, request.groups)


def _describe(
    broker: "GroupsContext", group_id: str, call: Call, operations: int
) -> DescribedGroup:
    try:
        group = coordination(broker).shard_of(group_id).group(group_id)
    except KafkaError as error:
        return _without(group_id, error.code, "", NOT_ASKED)
    if isinstance(group, ClassicGroup):
        return _found(group, operations)
    if call.version >= NOT_FOUND_SINCE:
        message = f"there is no group {group_id[:300]!r}"
        if group is not None:
            message = f"group {group_id[:300]!r} does not use the classic protocol"
        return _without(
            group_id, Code.GROUP_ID_NOT_FOUND, ClassicGroupState.DEAD.value, operations, message
        )
    return _without(group_id, Code.NONE, ClassicGroupState.DEAD.value, operations)


def _found(group: ClassicGroup, operations: int) -> DescribedGroup:
    """The assignments are returned only when the group is stable."""
    stable = group.state is ClassicGroupState.STABLE
    return DescribedGroup(
        error_code=0,
        group_id=group.id,
        group_state=group.state.value,
        protocol_type=group.members.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.protocols.get(group.protocol or "", b"") if stable else b"",
                member_assignment=member.assignment if stable else b"",
            )
            for member in group.members.by_id.values()
        ],
        authorized_operations=operations,
    )


def _without(
    group_id: str, code: Code, state: str, operations: int, message: str | None = None
) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
        authorized_operations=operations,
    )
