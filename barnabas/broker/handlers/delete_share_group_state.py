"""DeleteShareGroupState: the group coordinator deletes the state of share partitions."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.share.service import share_service
from barnabas.broker.share.state_messages import answered
from barnabas.broker.share.states import delete_operation
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
    answers = await answered(
        share_service(broker).coordination, request, lambda key, each: key, delete_operation
    )
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(
                topic_id=topic_id,
                partitions=[
                    PartitionResult(partition=each.key.partition, error_code=each.code)
                    for each in partitions
                ],
            )
            for topic_id, partitions in answers
        ]
    )
