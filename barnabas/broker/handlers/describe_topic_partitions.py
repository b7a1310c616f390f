"""DescribeTopicPartitions: topics ordered by name, one page of partitions at a time.

Always: a page ends after `limit` partitions; its cursor is where the next one begins.
"""

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.authorized_operations import TOPIC_OPERATIONS
from barnabas.broker.topic import Topic, why_missing
from barnabas.model.errors import Code
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

LISTENERS_SINCE = 6  # of Metadata, whose rule this API follows
NO_LEADER = -1


def handle(
    broker: "Broker", request: DescribeTopicPartitionsRequest, call: Call
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    asked = dict.fromkeys(topic.name for topic in request.topics)
    if cursor is not None and (
        cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)
    ):
        return _refused(asked)
    names: Iterable[str] = sorted(asked) if asked else (topic.name for topic in broker.topics)
    begin = cursor.topic_name if cursor is not None else ""
    left = min(broker.config.max_request_partition_size_limit, request.response_partition_limit)
    left = max(left, 1)
    page: list[DescribeTopicPartitionsResponseTopic] = []
    live = {node.id for node in broker.nodes(call.connection.listener)}
    for name in names:
        if name < begin:
            continue
        if not left:
            return _page(page, Cursor(topic_name=name, partition_index=0))
        topic = broker.topics.get(name)
        if topic is None:
            page.append(_missing(name))
            continue
        start = cursor.partition_index if cursor is not None and name == begin else 0
        stop = min(start + left, len(topic.partitions))
        page.append(_found(broker, topic, start, stop, live))
        if stop < len(topic.partitions):
            return _page(page, Cursor(topic_name=name, partition_index=stop))
        left -= max(stop - start, 0)
    return _page(page, None)


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], next_cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)


def _found(
    broker: "Broker", topic: Topic, start: int, stop: int, live: Container[int]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=(error := broker.leader_error(partition, live, LISTENERS_SINCE)),
                partition_index=index,
                leader_id=NO_LEADER if error else partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.in_sync),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=broker.offline(partition, live),
            )
            for index, partition in enumerate(topic.partitions[start:stop], start)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=why_missing(name),
        name=name,
        topic_id=NO_TOPIC_ID,
        partitions=[],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _refused(names: Iterable[str]) -> DescribeTopicPartitionsResponse:
    """The cursor is not from a page; the response can carry an error only in its topics."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=Code.INVALID_REQUEST, name=name, topic_id=NO_TOPIC_ID, partitions=[]
            )
            for name in names
        ]
    )
