"""InitializeShareGroupState: begins, or alters, the state of share partitions."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.share.service import share_service
from barnabas.broker.share.state_messages import answered
from barnabas.broker.share.states import initialize_operation
from barnabas.coordinators.share.keys import StateKey
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
    keys = {}
    for topic in request.topics:
        for each in topic.partitions:
            key = StateKey(request.group_id, topic.topic_id, each.partition)
            keys[key] = (key, each.state_epoch, each.start_offset)
    found = await answered(share_service(broker).coordination, keys, initialize_operation)
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(
                        partition=each.partition,
                        error_code=code,
                        error_message=(result and result.message) or None,
                    )
                    for each in topic.partitions
                    for code, result in (
                        found[StateKey(request.group_id, topic.topic_id, each.partition)],
                    )
                ],
            )
            for topic in request.topics
        ]
    )
