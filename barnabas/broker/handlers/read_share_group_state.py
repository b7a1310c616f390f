"""ReadShareGroupState: a leader reads the state of share partitions."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.share.service import share_service
from barnabas.broker.share.state_messages import answered
from barnabas.broker.share.states import read_operation
from barnabas.coordinators.share.keys import StateKey
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
    keys = {}
    for topic in request.topics:
        for each in topic.partitions:
            key = StateKey(request.group_id, topic.topic_id, each.partition)
            keys[key] = (key, each.leader_epoch)
    found = await answered(share_service(broker).coordination, keys, read_operation)
    results = []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            key = StateKey(request.group_id, topic.topic_id, each.partition)
            code, read = found[key]
            read = read or StateRead(key, code)
            partitions.append(
                PartitionResult(
                    partition=each.partition,
                    error_code=code,
                    error_message=read.message or None,
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
            )
        results.append(ReadStateResult(topic_id=topic.topic_id, partitions=partitions))
    return ReadShareGroupStateResponse(results=results)
