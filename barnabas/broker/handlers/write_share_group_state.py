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
    PartitionData,
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
    answers = await answered(
        share_service(broker).coordination, request, _state_write, write_operation
    )
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(
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


def _state_write(key: StateKey, partition: PartitionData) -> StateWrite:
    return StateWrite(
        key,
        partition.state_epoch,
        partition.leader_epoch,
        partition.start_offset,
        tuple(
            StateBatch(
                batch.first_offset,
                batch.last_offset,
                batch.delivery_state,
                batch.delivery_count,
            )
            for batch in partition.state_batches
        ),
        partition.delivery_complete_count,
    )
