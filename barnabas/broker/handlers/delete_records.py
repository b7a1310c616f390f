"""DeleteRecords: partitions cut at the front."""

from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

HIGH_WATERMARK = -1
INVALID_LOW_WATERMARK = -1


def handle(broker: "Broker", request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    topics = []
    refused: list[KafkaError] = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            low_watermark, code = INVALID_LOW_WATERMARK, Code.NONE
            try:
                low_watermark = _delete(broker, topic.name, asked.partition_index, asked.offset)
            except KafkaError as error:
                refused.append(error)
                code = error.code
            partitions.append(
                DeleteRecordsPartitionResult(
                    partition_index=asked.partition_index,
                    low_watermark=low_watermark,
                    error_code=code,
                )
            )
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    if refused:  # the response has no place for words
        broker.refused("delete of records refused", call, refused[0], partitions=len(refused))
    return DeleteRecordsResponse(topics=topics)


def _delete(broker: "Broker", name: str, index: int, offset: int) -> int:
    """The lowest offset that is left."""
    topic = broker.topics.existing(name)
    partition = topic.partition(index)
    log = partition.log
    if topic.internal:
        raise InvalidRequest(
            Code.INVALID_TOPIC_EXCEPTION, f"records of the internal topic {name} are not deleted"
        )
    policy = topic.config.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        raise InvalidRequest(
            Code.POLICY_VIOLATION,
            f"topic {name} is compacted: records can be deleted where cleanup.policy has delete",
        )
    log.delete_before(log.high_watermark if offset == HIGH_WATERMARK else offset)
    if partition.leading is not None:
        partition.leading.committed()  # followers hear of the new start
    return log.start_offset
