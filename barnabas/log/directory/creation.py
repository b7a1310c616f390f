"""Creates the log of a new partition."""

from uuid import UUID

from barnabas.log.config import LogConfig
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.log import Log, LogParts
from barnabas.log.producers.snapshots import ProducerSnapshots
from barnabas.log.producers.state import ProducerStates
from barnabas.log.recovery.findings import RecoveryFinding
from barnabas.log.segments.open_segments import OpenSegments
from barnabas.log.segments.segment import Segment
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import Disk


def create_log(
    disk: Disk,
    path: str,
    partition: TopicPartition,
    topic_id: UUID,
    config: LogConfig,
    open_segments: OpenSegments,
) -> Log:
    """A new, empty log; its first flush makes the directory itself durable."""
    disk.make_directory(path)
    findings: list[RecoveryFinding] = []
    parts = LogParts(
        segments=[
            Segment.create(disk, path, 0, open_segments, findings, config.index_interval_bytes)
        ],
        start_offset=0,
        high_watermark=0,
        recovery_point=0,
        epochs=LeaderEpochs([]),
        producers=ProducerStates(),
        snapshots=ProducerSnapshots(disk, path, []),
        findings=findings,
        new=True,
    )
    log = Log(disk, path, partition, topic_id, config, open_segments, parts)
    log.write_topic_id(topic_id)
    return log
