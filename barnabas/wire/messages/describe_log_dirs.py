"""DescribeLogDirs: replicas in the log directories."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since


class DescribableLogDirTopic(Struct):
    topic: str
    partitions: list[Int32]


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest(ProtocolMessage):
    """Requests the replicas in the log directories. v2: flexible."""

    topics: list[DescribableLogDirTopic] | None


class DescribeLogDirsPartition(Struct):
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: bool


class DescribeLogDirsTopic(Struct):
    name: str
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    error_code: Int16
    log_dir: str
    topics: list[DescribeLogDirsTopic]
    total_bytes: Int64 = since(4, default=-1, ignorable=True)
    usable_bytes: Int64 = since(4, default=-1, ignorable=True)
    is_cordoned: bool = since(5, default=False, ignorable=True)


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse(ProtocolMessage):
    """Sizes of partitions per log directory.

    v2: flexible. v3: an error for all. v4: bytes of the disk.
    v5: whether the directory is cordoned.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, default=0, ignorable=True)
    results: list[DescribeLogDirsResult]
