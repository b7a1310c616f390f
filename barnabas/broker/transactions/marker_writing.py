"""Writes markers into the partitions that this broker leads: WriteTxnMarkers.

In: markers, of this broker's transaction coordinator or another's. Out: a code for each partition.
Always: a marker is answered when it is committed. In __consumer_offsets the group coordinator
writes it, since the offsets of the transaction take effect with it.
Not here: which markers are due (coordinators/transactions), whether one is accepted (log/).
"""

import asyncio
from typing import Any

from barnabas.broker.context import GroupsContext
from barnabas.broker.net.deferred_reply import DeferredReply, settled
from barnabas.broker.topic import OFFSETS_TOPIC
from barnabas.broker.transactions.marker_append import append_marker
from barnabas.coordinators.ports import TransactionMarker
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.control_records import EndMarker
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

PARTITIONS_AT_ONCE = 50

_NOT_READY = (
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.NOT_COORDINATOR,
)


async def write_markers(
    broker: GroupsContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """All are appended before any is waited for. Other requests are served in between: a
    transaction may be in thousands of partitions, whose files have to be opened."""
    markers = []
    count = 0
    for marker in request.markers:
        topics = []
        for topic in marker.topics:
            begun = []
            for index in topic.partition_indexes:
                if count and count % PARTITIONS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                count += 1
                begun.append(_begin(broker, marker, topic.name, index))
            topics.append((topic.name, begun))
        markers.append((marker, topics))
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=await _code(begun)
                            )
                            for index, begun in partitions
                        ],
                    )
                    for name, partitions in topics
                ],
            )
            for marker, topics in markers
        ]
    )


Begun = Code | DeferredReply[Any]


def _begin(
    broker: GroupsContext, marker: WritableTxnMarker, topic: str, index: int
) -> tuple[int, Begun]:
    try:
        if topic == OFFSETS_TOPIC:
            return index, _in_offsets(broker, marker, index)
        partition = broker.topics.existing(topic).partition(index)
        end = EndMarker(marker.transaction_result, marker.coordinator_epoch)
        appended = append_marker(
            partition,
            marker.producer_id,
            marker.producer_epoch,
            end,
            marker.transaction_version,
            broker.clock.wall_ms(),
        )
    except KafkaError as error:
        # The coordinator asks again after the one, and does not know the others.
        code = error.code
        return index, Code.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code
    return index, partition.wait_for_commit(appended.last_offset) or Code.NONE


def _in_offsets(broker: GroupsContext, marker: WritableTxnMarker, index: int) -> Begun:
    from barnabas.broker.groups.coordination import coordination

    end = TransactionMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
    one = WritableTxnMarkerPartitionResult(partition_index=index, error_code=Code.NONE)
    topic = WritableTxnMarkerTopicResult(name=OFFSETS_TOPIC, partitions=[one])
    response = WriteTxnMarkersResponse(
        markers=[WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[topic])]
    )
    return coordination(broker).end_transaction(index, end, response)


async def _code(begun: Begun) -> Code:
    if isinstance(begun, Code):
        return begun
    outcome = await settled(begun)
    if isinstance(outcome, WriteTxnMarkersResponse):
        return Code.of(outcome.markers[0].topics[0].partitions[0].error_code)
    return outcome.code if isinstance(outcome, KafkaError) else Code.NONE
