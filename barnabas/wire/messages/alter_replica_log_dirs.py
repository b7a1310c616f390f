"""AlterReplicaLogDirs: moves replicas between directories."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message


class AlterReplicaLogDirTopic(Struct):
    name: str
    partitions: list[Int32]


class AlterReplicaLogDir(Struct):
    path: str
    topics: list[AlterReplicaLogDirTopic]


@message(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest(ProtocolMessage):
    """Replicas to move to another log directory. v2: flexible."""

    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str
    partitions: list[AlterReplicaLogDirPartitionResult]


@message(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse(ProtocolMessage):
    """Which moves were begun. v2: flexible."""

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult]
