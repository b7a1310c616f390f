"""ListOffsets: the offset for a timestamp, or for a special position such as the end.

Always: a timestamp finds the first record that is not older, with that record's own timestamp.
Always: a search by time blocks the loop for one batch at most, and never waits there for a disk.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.wire.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import PartitionsContext
    from barnabas.broker.partition import Partition

# The request version that added each special position.
_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
EPOCHS_SINCE = 4
NOT_AVAILABLE_SINCE = 5
CONSUMER = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
SLICE_S = 0.002  # of searches, until other tasks run
UNKNOWN = (-1, -1, -1)  # timestamp, offset, leader epoch


def handle(
    broker: "PartitionsContext", request: ListOffsetsRequest, call: Call
) -> ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]:
    counts = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
    if any(_reads_records(asked) for topic in request.topics for asked in topic.partitions):
        return _looked_up(broker, request, call, counts)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(broker, topic.name, asked, request, call, counts)
                    for asked in _once(topic.partitions)
                ],
            )
            for topic in request.topics
        ]
    )


def _reads_records(asked: ListOffsetsPartition) -> bool:
    return asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP


async def _looked_up(
    broker: "PartitionsContext",
    request: ListOffsetsRequest,
    call: Call,
    counts: Counter[tuple[str, int]],
) -> ListOffsetsResponse:
    """Records must be read and decompressed: other tasks run between, and while a disk works."""
    topics = []
    slice_end = broker.loop.time() + SLICE_S
    for topic in request.topics:
        partitions = []
        for asked in _once(topic.partitions):
            if _reads_records(asked):
                await _warm(broker, topic.name, asked)
            partitions.append(_answer(broker, topic.name, asked, request, call, counts))
            if broker.loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = broker.loop.time() + SLICE_S
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _once(partitions: list[ListOffsetsPartition]) -> list[ListOffsetsPartition]:
    """A partition that is requested twice is refused once."""
    return list({asked.partition_index: asked for asked in partitions}.values())


async def _warm(broker: "PartitionsContext", topic: str, asked: ListOffsetsPartition) -> None:
    """Let the disk's thread read what the search needs, unless it is in memory."""
    try:
        partition = broker.topics.existing(topic).partition(asked.partition_index)
        log, log_directory = partition.log, partition.log_directory
        if log_directory is None:
            return
        timestamp = None if asked.timestamp == MAX_TIMESTAMP else asked.timestamp
        found = log.time_slice(timestamp)
        if found is not None and log.is_cold(found):
            await log_directory.warm([found])
    except (KafkaError, OSError):
        return  # the search gets the same error, and reports it


def _answer(
    broker: "PartitionsContext",
    topic: str,
    asked: ListOffsetsPartition,
    request: ListOffsetsRequest,
    call: Call,
    counts: Counter[tuple[str, int]],
) -> ListOffsetsPartitionResponse:
    try:
        if counts[topic, asked.partition_index] > 1:
            raise InvalidRequest(Code.INVALID_REQUEST, "a partition is requested twice")
        partition = broker.topics.existing(topic).partition(asked.partition_index)
        timestamp, offset, epoch = _find(partition, asked, request, call.version)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=error.code
        )
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=0,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if call.version >= EPOCHS_SINCE else -1,
    )


def _find(
    partition: "Partition", asked: ListOffsetsPartition, request: ListOffsetsRequest, version: int
) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch."""
    timestamp = asked.timestamp
    if timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
        raise InvalidRequest(
            Code.UNSUPPORTED_VERSION,
            f"timestamp {timestamp} is not supported in version {version} of ListOffsets",
        )
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"isolation level {request.isolation_level} is unknown; expected 0 or 1",
        )
    partition.check_leader_epoch(asked.current_leader_epoch)
    log = partition.log
    end = log.end_offset
    if request.replica_id == CONSUMER:
        stable = request.isolation_level == READ_COMMITTED
        end = log.last_stable_offset if stable else log.high_watermark
        if partition.delay is not None:
            end = min(end, partition.delay.end())
    if timestamp == LATEST:
        _check_settled(partition, end, version)
        return -1, end, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, log.epochs.epoch_at(log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):  # there are no tiers
        return UNKNOWN
    try:
        found = log.find_max_timestamp() if timestamp == MAX_TIMESTAMP else log.find_time(timestamp)
    except OSError as error:
        raise partition.unreadable(error) from error
    if found is None or found.offset >= end:
        _check_settled(partition, end, version)
        return UNKNOWN
    return found.timestamp, found.offset, found.leader_epoch


def _check_settled(partition: "Partition", end: int, version: int) -> None:
    """A new leader may not know its predecessor's high watermark yet: an end must not decrease."""
    if partition.leading is not None and end < partition.leading.machine.epoch_start:
        raise Retriable(
            Code.OFFSET_NOT_AVAILABLE
            if version >= NOT_AVAILABLE_SINCE
            else Code.LEADER_NOT_AVAILABLE,
            f"the leader of {partition.name} is new and does not know the high watermark yet; try"
            " again",
        )
