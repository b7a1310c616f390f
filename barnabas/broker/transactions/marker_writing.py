"""Writes markers into the partitions that this broker leads: WriteTxnMarkers.

In: markers, of this broker's transaction coordinator or another's. Out: a code for each partition.
Always: a marker is answered when it is committed. In __consumer_offsets the group coordinator
writes it, since the offsets of the transaction take effect with it.
Not here: which markers are due (coordinators/transactions), whether one is accepted (log/).
"""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, NamedTuple, cast

from barnabas.broker.context import GroupsContext
from barnabas.broker.net.deferred_reply import DeferredReply, settled
from barnabas.broker.topic import INTERNAL, OFFSETS_TOPIC
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

PARTITIONS_AT_ONCE = 200  # about 5 ms

_NOT_READY = (
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.NOT_COORDINATOR,
)


Begun = Code | DeferredReply[Any]
Partitions = list[tuple[int, Begun]]


class BegunMarker(NamedTuple):
    """Appended to these partitions of topics, or refused."""

    marker: WritableTxnMarker
    topics: list[tuple[str, Partitions]]


def begin_markers(
    broker: GroupsContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Coroutine[Any, Any, WriteTxnMarkersResponse]:
    """The answer at once, if there are few partitions and none of them waits for replicas."""
    begun: list[BegunMarker] = []
    appending = _append(broker, request, begun)
    if any(appending) or any(
        isinstance(each, DeferredReply)
        for _, topics in begun
        for _, partitions in topics
        for _, each in partitions
    ):
        return _finish(appending, begun)
    return _response(begun)


async def write_markers(
    broker: GroupsContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    begun = begin_markers(broker, request)
    return begun if isinstance(begun, WriteTxnMarkersResponse) else await begun


def _append(
    broker: GroupsContext, request: WriteTxnMarkersRequest, begun: list[BegunMarker]
) -> Iterator[bool]:
    """All are appended before any is waited for. It yields where other requests may be served: a
    transaction may be in thousands of partitions, whose files have to be opened."""
    count = 0
    for marker in request.markers:
        topics: list[tuple[str, Partitions]] = []
        begun.append(BegunMarker(marker, topics))
        for topic in marker.topics:
            partitions: Partitions = []
            topics.append((topic.name, partitions))
            for index in topic.partition_indexes:
                if count == PARTITIONS_AT_ONCE:
                    yield True
                    count = 0
                count += 1
                partitions.append((index, _begin(broker, marker, topic.name, index)))


async def _finish(appending: Iterator[bool], begun: list[BegunMarker]) -> WriteTxnMarkersResponse:
    for _ in appending:
        await asyncio.sleep(0)
    for _, topics in begun:
        for _, partitions in topics:
            partitions[:] = [(index, await _code(each)) for index, each in partitions]
    return _response(begun)


def _response(begun: list[BegunMarker]) -> WriteTxnMarkersResponse:
    """All have their codes."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=cast(Code, code)
                            )
                            for index, code in partitions
                        ],
                    )
                    for name, partitions in topics
                ],
            )
            for marker, topics in begun
        ]
    )


def _begin(broker: GroupsContext, marker: WritableTxnMarker, topic: str, index: int) -> Begun:
    try:
        if topic == OFFSETS_TOPIC:
            return _in_offsets(broker, marker, index)
        if topic in INTERNAL:  # its coordinator could not load it; a coordinator asks no more
            return Code.UNSUPPORTED_FOR_MESSAGE_FORMAT
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
        return Code.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code
    return partition.wait_for_commit(appended.last_offset) or Code.NONE


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
