"""ReadShareGroupState: a leader reads the state of share partitions."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.share.service import share_service
from barnabas.broker.share.state_messages import PartitionAnswer, answered
from barnabas.broker.share.states import read_operation
from barnabas.coordinators.share.state_shard import StateRead
from barnabas.wire.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: ReadShareGroupStateRequest, call: Call
) -> ReadShareGroupStateResponse:
    answers = await answered(
        share_service(broker).coordination,
        request,
        lambda key, each: (key, each.leader_epoch),
        read_operation,
    )
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(topic_id=topic_id, partitions=list(map(_result, partitions)))
            for topic_id, partitions in answers
        ]
    )


def _result(answer: PartitionAnswer) -> PartitionResult:
    read: StateRead = answer.result or StateRead(answer.key, answer.code)
    return PartitionResult(
        partition=answer.key.partition,
        error_code=answer.code,
        error_message=answer.message,
        state_epoch=read.state_epoch,
        start_offset=read.start_offset,
        state_batches=[
            StateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.attempts,
            )
            for batch in read.batches
        ],
    )
