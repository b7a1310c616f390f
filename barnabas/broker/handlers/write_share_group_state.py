"""WriteShareGroupState: a leader changes the state of share partitions."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.share.service import share_service
from barnabas.broker.share.state_messages import answered
from barnabas.broker.share.states import write_operation
from barnabas.coordinators.share.keys import StateKey
from barnabas.coordinators.share.state_batches import StateBatch
from barnabas.coordinators.share.state_shard import StateWrite
from barnabas.wire.messages.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: WriteShareGroupStateRequest, call: Call
) -> WriteShareGroupStateResponse:
    keys = {}
    for topic in request.topics:
        for each in topic.partitions:
            key = StateKey(request.group_id, topic.topic_id, each.partition)
            keys[key] = StateWrite(
                key,
                each.state_epoch,
                each.leader_epoch,
                each.start_offset,
                tuple(
                    StateBatch(
                        batch.first_offset,
                        batch.last_offset,
                        batch.delivery_state,
                        batch.delivery_count,
                    )
                    for batch in each.state_batches
                ),
                each.delivery_complete_count,
            )
    found = await answered(share_service(broker).coordination, keys, write_operation)
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(
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
