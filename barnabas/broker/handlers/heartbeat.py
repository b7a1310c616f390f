"""Heartbeat: a member is alive, and learns whether it must rejoin."""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: HeartbeatRequest, call: Call) -> Reply:
    try:
        return coordination(broker).run(
            request.group_id, lambda shard, caller, now: shard.heartbeat(request, caller, now), call
        )
    except KafkaError as error:
        # While its group is being loaded, the member id and generation are trusted.
        loading = error.code is Code.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=Code.NONE if loading else error.code)
