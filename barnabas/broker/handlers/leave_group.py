"""LeaveGroup: members leave, by themselves or removed by an administrator."""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: LeaveGroupRequest, call: Call) -> Reply:
    try:
        return coordination(broker).run(
            request.group_id, lambda shard, caller, now: shard.leave(request, caller, now), call
        )
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
