"""DeleteShareGroupState: the group coordinator deletes the state of share partitions."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.share.service import share_service
from barnabas.broker.share.state_messages import answered
from barnabas.broker.share.states import delete_operation
from barnabas.coordinators.share.keys import StateKey
from barnabas.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: DeleteShareGroupStateRequest, call: Call
) -> DeleteShareGroupStateResponse:
    keys = {}
    for topic in request.topics:
        for each in topic.partitions:
            key = StateKey(request.group_id, topic.topic_id, each.partition)
            keys[key] = key
    found = await answered(share_service(broker).coordination, keys, delete_operation)
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(
                        partition=each.partition,
                        error_code=found[
                            StateKey(request.group_id, topic.topic_id, each.partition)
                        ][0],
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
