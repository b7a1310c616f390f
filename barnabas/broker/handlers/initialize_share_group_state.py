"""InitializeShareGroupState: begins, or alters, the state of share partitions."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.share.service import share_service
from barnabas.broker.share.state_messages import answered
from barnabas.broker.share.states import initialize_operation
from barnabas.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: InitializeShareGroupStateRequest, call: Call
) -> InitializeShareGroupStateResponse:
    answers = await answered(
        share_service(broker).coordination,
        request,
        lambda key, each: (key, each.state_epoch, each.start_offset),
        initialize_operation,
    )
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(
                topic_id=topic_id,
                partitions=[
                    PartitionResult(
                        partition=each.key.partition,
                        error_code=each.code,
                        error_message=each.message,
                    )
                    for each in partitions
                ],
            )
            for topic_id, partitions in answers
        ]
    )
