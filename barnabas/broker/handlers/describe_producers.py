"""DescribeProducers: the producers whose state a partition has."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.model.ids import check_topic_name
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import PartitionsContext


def handle(
    broker: "PartitionsContext", request: DescribeProducersRequest, call: Call
) -> DescribeProducersResponse:
    # Each once: a small request that repeats a partition would cause a very large response.
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=name, partitions=[_partition(broker, name, index) for index in indexes]
            )
            for name, indexes in asked.items()
        ]
    )


def _partition(broker: "PartitionsContext", topic: str, index: int) -> PartitionResponse:
    try:
        partition = broker.topics.existing(check_topic_name(topic)).replica(index)
    except KafkaError as error:
        return PartitionResponse(
            partition_index=index,
            error_code=error.code,
            error_message=error.detail,
            active_producers=[],
        )
    return PartitionResponse(
        partition_index=index,
        error_code=0,
        active_producers=[
            ProducerState(
                producer_id=state.producer_id,
                producer_epoch=state.epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=state.transaction_start,
            )
            for state in partition.log.producers.describe()
        ],
    )
