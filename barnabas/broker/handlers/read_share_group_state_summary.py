"""ReadShareGroupStateSummary: where share partitions begin, for the group coordinator."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.share.service import share_service
from barnabas.broker.share.state_messages import PartitionAnswer, answered
from barnabas.broker.share.states import summarise_operation
from barnabas.coordinators.share.keys import StateSummary
from barnabas.wire.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: ReadShareGroupStateSummaryRequest, call: Call
) -> ReadShareGroupStateSummaryResponse:
    answers = await answered(
        share_service(broker).coordination, request, lambda key, each: key, summarise_operation
    )
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(topic_id=topic_id, partitions=list(map(_result, partitions)))
            for topic_id, partitions in answers
        ]
    )


def _result(answer: PartitionAnswer) -> PartitionResult:
    summary: StateSummary = answer.result or StateSummary(answer.key[1:], answer.code)
    return PartitionResult(
        partition=answer.key.partition,
        error_code=answer.code,
        error_message=answer.message,
        state_epoch=summary.state_epoch,
        leader_epoch=max(summary.leader_epoch, 0),
        start_offset=summary.start_offset,
        delivery_complete_count=summary.delivery_complete_count,
    )
