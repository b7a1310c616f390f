"""JoinGroup: a member joins, and gets its generation when all others have joined too."""

from typing import TYPE_CHECKING
from uuid import uuid4

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.dispatch import Call
from barnabas.coordinators.groups.replies import join_refused
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.join_group import JoinGroupRequest

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: JoinGroupRequest, call: Call) -> Reply:
    uuid = str(uuid4())
    try:
        return coordination(broker).run(
            request.group_id,
            lambda shard, caller, now: shard.join(request, caller, uuid, now),
            call,
        )
    except KafkaError as error:
        return join_refused(error.code, request.member_id)
