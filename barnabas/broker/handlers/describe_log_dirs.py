"""DescribeLogDirs: the log directories, their disks, and the size of each partition in them."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.log.log import Log
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
    results = [
        _described(broker, log_directory, request.topics)
        for log_directory in broker.logs.log_directories
    ]
    results += map(_offline, broker.logs.unopened)
    return DescribeLogDirsResponse(results=results)


def _described(
    broker: "Broker", log_directory: OpenLogDirectory, asked: list[DescribableLogDirTopic] | None
) -> DescribeLogDirsResult:
    if not log_directory.online:
        return _offline(log_directory.path)
    try:
        total, free = broker.disk.usage(log_directory.path)
    except OSError as error:
        broker.log.warning(
            "log directory cannot be described", path=log_directory.path, reason=str(error)
        )
        return _offline(log_directory.path)
    return DescribeLogDirsResult(
        error_code=0,
        log_dir=log_directory.path,
        topics=_topics(broker, log_directory, asked),
        total_bytes=total,
        usable_bytes=free,
    )


def _offline(path: str) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=Code.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])


def _topics(
    broker: "Broker", log_directory: OpenLogDirectory, asked: list[DescribableLogDirTopic] | None
) -> list[DescribeLogDirsTopic]:
    """Partitions that are not here are left out, as in Kafka; a copy is behind by its lag."""
    wanted: dict[str, set[int]] = {}
    for each in asked or ():
        wanted.setdefault(each.topic, set()).update(each.partitions)
    topics = []
    for topic in broker.topics:
        partitions = []
        for index, partition in enumerate(topic.partitions):
            if asked is not None and index not in wanted.get(topic.name, ()):
                continue
            move = broker.moves.of(partition.name)
            if partition.log_directory is log_directory:
                partitions.append(_size(index, partition.log, partition.log))
            elif move is not None and move.to is log_directory and move.copy is not None:
                partitions.append(_size(index, move.copy, partition.log))
        if partitions:
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    return topics


def _size(index: int, log: Log, source: Log) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=index,
        partition_size=log.size,
        offset_lag=source.end_offset - log.end_offset,
        is_future_key=log is not source,
    )
