"""ReadShareGroupStateSummary: where share partitions begin, for the group coordinator."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.share.service import share_service
from barnabas.broker.share.state_messages import answered
from barnabas.broker.share.states import summarise_operation
from barnabas.coordinators.share.keys import StateKey, StateSummary
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
    keys = {}
    for topic in request.topics:
        for each in topic.partitions:
            key = StateKey(request.group_id, topic.topic_id, each.partition)
            keys[key] = key
    found = await answered(share_service(broker).coordination, keys, summarise_operation)
    results = []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            key = StateKey(request.group_id, topic.topic_id, each.partition)
            code, summary = found[key]
            summary = summary or StateSummary(key[1:], code)
            partitions.append(
                PartitionResult(
                    partition=each.partition,
                    error_code=code,
                    error_message=summary.message or None,
                    state_epoch=summary.state_epoch,
                    leader_epoch=max(summary.leader_epoch, 0),
                    start_offset=summary.start_offset,
                    delivery_complete_count=summary.delivery_complete_count,
                )
            )
        results.append(ReadStateSummaryResult(topic_id=topic.topic_id, partitions=partitions))
    return ReadShareGroupStateSummaryResponse(results=results)
