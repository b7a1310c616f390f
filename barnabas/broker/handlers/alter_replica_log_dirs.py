"""AlterReplicaLogDirs: moves partitions to another log directory of this broker.

Always: the response says that a move has begun; DescribeLogDirs reports its progress.
"""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def handle(
    broker: "Broker", request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    results: dict[str, dict[int, int]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            codes = results.setdefault(topic.name, {})
            for index in topic.partitions:
                codes[index] = Code.NONE
                try:
                    partition = broker.topics.existing(topic.name).replica(index)
                    broker.moves.begin(partition, _log_directory(broker, directory.path))
                except KafkaError as error:
                    codes[index] = error.code
                    broker.refused("move refused", call, error, topic=topic.name, partition=index)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index, code in codes.items()
                ],
            )
            for name, codes in results.items()
        ]
    )


def _log_directory(broker: "Broker", path: str) -> OpenLogDirectory:
    for log_directory in broker.logs.log_directories:
        if log_directory.path == path:
            if not log_directory.online:
                raise Retriable(Code.KAFKA_STORAGE_ERROR, f"{path}: {log_directory.failure}")
            return log_directory
    known = ", ".join(log_directory.path for log_directory in broker.logs.log_directories)
    raise InvalidRequest(
        Code.LOG_DIR_NOT_FOUND, f"{path[:300]!r} is not in log.dirs, which are {known}"
    )
