"""DescribeLogs: the sizes of a topic's logs, and the state of compaction, for our own client."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.partition import Partition
from barnabas.log.compaction.cleanable import look
from barnabas.log.log import Log
from barnabas.model.errors import Code, KafkaError
from barnabas.replication.leader import NEVER
from barnabas.wire.messages.describe_logs import (
    DescribedLog,
    DescribedReplica,
    DescribedSegment,
    DescribeLogsRequest,
    DescribeLogsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

SEGMENTS_MAX = 1_000


def handle(broker: "Broker", request: DescribeLogsRequest, call: Call) -> DescribeLogsResponse:
    logs = []
    segments_left = max(0, min(request.segments_max, SEGMENTS_MAX))
    for index in dict.fromkeys(request.partitions):
        try:
            partition = broker.topics.existing(request.topic).partition(index)
            segments = _segments(partition.log, segments_left)
            segments_left -= len(segments)
            logs.append(_tell(broker, index, partition, segments))
        except KafkaError as error:
            logs.append(DescribedLog(partition=index, replicas=[], error_code=error.code))
        except OSError:
            code = Code.KAFKA_STORAGE_ERROR
            logs.append(DescribedLog(partition=index, replicas=[], error_code=code))
    return DescribeLogsResponse(logs=logs)


def _segments(log: Log, count: int) -> list[DescribedSegment]:
    """The newest ones. Nothing is read from the disk for it."""
    if not count:
        return []
    shown = log.segments[-count:]
    ends = [segment.base_offset for segment in shown[1:]] + [log.end_offset]
    return [
        DescribedSegment(
            base_offset=segment.base_offset,
            next_offset=end,
            bytes=segment.size,
            index_entries=segment.offset_index.count,
            newest_ms=max(-1, segment.max_timestamp),
            created_ms=segment.created_ms,
        )
        for segment, end in zip(shown, ends, strict=True)
    ]


def _replicas(broker: "Broker", partition: Partition) -> list[DescribedReplica]:
    leading = partition.leading
    if leading is None:
        return []
    now = broker.clock.monotonic_ms()
    replicas = [DescribedReplica(broker=broker.id, end=partition.log.end_offset, behind_ms=0)]
    for follower, progress in leading.machine.followers.items():
        behind_ms = -1 if progress.caught_up_ms == NEVER else max(0, now - progress.caught_up_ms)
        replicas.append(DescribedReplica(broker=follower, end=progress.end, behind_ms=behind_ms))
    return replicas


def _tell(
    broker: "Broker", index: int, partition: Partition, segments: list[DescribedSegment]
) -> DescribedLog:
    log, replicas = partition.log, _replicas(broker, partition)
    if not log.config.compacted:
        return DescribedLog(
            partition=index,
            replicas=replicas,
            bytes=log.size,
            segments=len(log.segments),
            segment_list=segments,
        )
    found = look(log, broker.clock.wall_ms())
    current = broker.cleaner.current
    if log in broker.cleaner.unfit:
        words = f"left alone until a restart: {broker.cleaner.unfit[log]}"
    elif current is not None and current.log is log:
        words = f"under way: {current.due}"
    elif not broker.config.log_cleaner_enable:
        words = "switched off: log.cleaner.enable = false"
    elif found.due:
        words = f"due: {found.due}"
    elif found.dirty_bytes:
        least = log.config.min_cleanable_dirty_ratio
        words = f"not yet: {found.dirty_ratio:.0%} is dirty, min.cleanable.dirty.ratio = {least}"
    else:
        words = "clean"
    return DescribedLog(
        partition=index,
        replicas=replicas,
        bytes=log.size,
        segments=len(log.segments),
        clean_bytes=found.clean_bytes,
        dirty_bytes=found.dirty_bytes,
        cleaned_to=log.cleaned_to,
        cleaning=words,
        segment_list=segments,
    )
