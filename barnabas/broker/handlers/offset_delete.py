"""OffsetDelete: a group forgets how far it has read in topics it no longer subscribes to."""

from typing import TYPE_CHECKING

from barnabas.broker.coordination import Reply, coordination
from barnabas.broker.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def handle(broker: "Broker", request: OffsetDeleteRequest, call: Call) -> Reply:
    try:
        return coordination(broker).run(
            request.group_id,
            lambda shard, caller, now: shard.delete_offsets(request, caller),
            call,
        )
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code, topics=[])
