"""StreamsGroupHeartbeat: a member of a streams group is alive, and gets its tasks.

Internal topics that its group needs are created by this broker, in the name of the member.
"""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.groups.internal_topics import create_missing
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.coordinators.groups.replies import streams_refused
from barnabas.model.errors import KafkaError
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: StreamsGroupHeartbeatRequest, call: Call) -> Reply:
    try:
        reply = coordination(broker).run(
            request.group_id,
            lambda shard, caller, now: shard.streams_heartbeat(request, caller, now),
            call,
        )
    except KafkaError as error:
        return streams_refused(error.code, error.detail)

    def finish(response: ProtocolMessage) -> ProtocolMessage:
        assert isinstance(response, StreamsGroupHeartbeatResponse)
        if response.error_code or not response.status:
            return response
        return create_missing(broker, request.group_id, response, call)

    if not isinstance(reply, DeferredReply):
        return finish(reply)
    finished: DeferredReply[ProtocolMessage] = DeferredReply()
    reply.then(lambda response: finished.set(finish(response)))
    return finished
