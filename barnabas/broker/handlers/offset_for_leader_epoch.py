"""OffsetForLeaderEpoch: where the records of a leader epoch end, to detect truncation."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.context import PartitionsContext


def handle(
    broker: "PartitionsContext", request: OffsetForLeaderEpochRequest, call: Call
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end(broker, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end(
    broker: "PartitionsContext", topic: str, asked: OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        partition = broker.topics.existing(topic).partition(asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    epoch, end_offset = partition.log.epoch_end(asked.leader_epoch)
    return EpochEndOffset(
        error_code=0, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset
    )
