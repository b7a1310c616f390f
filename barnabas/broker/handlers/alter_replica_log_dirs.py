"""AlterReplicaLogDirs: partitions to another log directory of this broker.

Always: the answer says that a move has begun; DescribeLogDirs says how far it is.
"""

from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.broker.volume import Volume
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
                    broker.moves.begin(partition, _volume(broker, directory.path))
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


def _volume(broker: "Broker", path: str) -> Volume:
    for volume in broker.logs.volumes:
        if volume.path == path:
            if not volume.online:
                raise Retriable(Code.KAFKA_STORAGE_ERROR, f"{path}: {volume.failure}")
            return volume
    known = ", ".join(volume.path for volume in broker.logs.volumes)
    raise InvalidRequest(
        Code.LOG_DIR_NOT_FOUND, f"{path[:300]!r} is not in log.dirs, which are {known}"
    )
