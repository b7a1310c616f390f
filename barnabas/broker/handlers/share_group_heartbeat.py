"""ShareGroupHeartbeat: a member of a share group is alive, and gets its partitions."""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.dispatch import Call
from barnabas.coordinators.groups.replies import share_refused
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: ShareGroupHeartbeatRequest, call: Call) -> Reply:
    try:
        return coordination(broker).run(
            request.group_id,
            lambda shard, caller, now: shard.share_heartbeat(request, caller, now),
            call,
        )
    except KafkaError as error:
        return share_refused(error.code, error.detail)
