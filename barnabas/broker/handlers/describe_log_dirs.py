"""DescribeLogDirs: the data directory, its disk, and the size of each partition in it."""

from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.model.errors import Code
from barnabas.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def handle(
    broker: "Broker", request: DescribeLogDirsRequest, call: Call
) -> DescribeLogDirsResponse:
    path = broker.logs.path
    try:
        total, free = broker.disk.usage(path)
    except OSError as error:
        broker.log.warning("log directory cannot be described", path=path, reason=str(error))
        result = DescribeLogDirsResult(error_code=Code.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])
    else:
        result = DescribeLogDirsResult(
            error_code=0,
            log_dir=path,
            topics=_topics(broker, request.topics),
            total_bytes=total,
            usable_bytes=free,
        )
    return DescribeLogDirsResponse(results=[result])


def _topics(
    broker: "Broker", asked: list[DescribableLogDirTopic] | None
) -> list[DescribeLogDirsTopic]:
    """What is not here is left out, as in Kafka."""
    wanted: dict[str, set[int]] = {}
    for each in asked or ():
        wanted.setdefault(each.topic, set()).update(each.partitions)
    topics = []
    for topic in broker.topics:
        partitions = [
            DescribeLogDirsPartition(
                partition_index=index,
                partition_size=partition.log.size,
                offset_lag=0,
                is_future_key=False,
            )
            for index, partition in enumerate(topic.partitions)
            if asked is None or index in wanted.get(topic.name, ())
        ]
        if partitions:
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    return topics
