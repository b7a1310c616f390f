"""SyncGroup: the leader sends the assignments, and every member gets its own."""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.dispatch import Call
from barnabas.coordinators.groups.replies import sync_refused
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: SyncGroupRequest, call: Call) -> Reply:
    try:
        return coordination(broker).run(
            request.group_id, lambda shard, caller, now: shard.sync(request, caller, now), call
        )
    except KafkaError as error:
        return sync_refused(error.code)
