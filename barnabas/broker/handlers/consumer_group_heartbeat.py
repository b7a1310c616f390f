"""ConsumerGroupHeartbeat: a member of the new protocol is alive, and gets its assignment."""

from typing import TYPE_CHECKING
from uuid import uuid4

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.dispatch import Call
from barnabas.coordinators.groups.replies import consumer_refused
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: ConsumerGroupHeartbeatRequest, call: Call) -> Reply:
    uuid = "" if request.member_id else str(uuid4())
    try:
        return coordination(broker).run(
            request.group_id,
            lambda shard, caller, now: shard.consumer_heartbeat(request, caller, uuid, now),
            call,
        )
    except KafkaError as error:
        return consumer_refused(error.code, error.detail)
