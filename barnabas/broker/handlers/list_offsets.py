"""ListOffsets: the offset that belongs to a timestamp, or to a place such as the end.

Always: a timestamp finds the first record that is not older, with that record's own timestamp.
"""

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
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
    from barnabas.broker.broker import Broker
    from barnabas.broker.partition import Partition

# Which version of the request brought a place.
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
UNKNOWN = (-1, -1, -1)  # timestamp, offset, leader epoch


def handle(broker: "Broker", request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    counts = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
    answered: set[tuple[str, int]] = set()
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            if key in answered:
                continue
            answered.add(key)
            try:
                if counts[key] > 1:
                    raise InvalidRequest(
                        Code.INVALID_REQUEST, "the partition is in the request more than once"
                    )
                partition = broker.topics.existing(topic.name).partition(asked.partition_index)
                found = _find(partition, asked, request, call.version)
            except KafkaError as error:
                partitions.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=error.code
                    )
                )
                continue
            timestamp, offset, epoch = found
            partitions.append(
                ListOffsetsPartitionResponse(
                    partition_index=asked.partition_index,
                    error_code=0,
                    timestamp=timestamp,
                    offset=offset,
                    leader_epoch=epoch if call.version >= EPOCHS_SINCE else -1,
                )
            )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


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
    end = log.high_watermark if request.replica_id == CONSUMER else log.end_offset
    if timestamp == LATEST:
        _check_settled(partition, end, version)
        return -1, end, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, log.epochs.epoch_at(log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):  # there are no tiers
        return UNKNOWN
    found = log.find_max_timestamp() if timestamp == MAX_TIMESTAMP else log.find_time(timestamp)
    if found is None or found.offset >= end:
        _check_settled(partition, end, version)
        return UNKNOWN
    return found.timestamp, found.offset, found.leader_epoch


def _check_settled(partition: "Partition", end: int, version: int) -> None:
    """A new leader may not know yet how far its predecessor had come: an end must not go back."""
    if partition.leading is not None and end < partition.leading.machine.epoch_start:
        raise Retriable(
            Code.OFFSET_NOT_AVAILABLE
            if version >= NOT_AVAILABLE_SINCE
            else Code.LEADER_NOT_AVAILABLE,
            f"the leader of {partition.name} is new and does not know the high watermark yet; try"
            " again",
        )
