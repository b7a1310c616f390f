"""Broker options of the share coordinator and of share sessions.

Names, defaults and bounds are Kafka's.
"""

from barnabas.config.kinds import Bytes, Int, Milliseconds
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config


def _option(name: str, kind: Int | Bytes | Milliseconds, default: int, doc: str) -> Option[int]:
    return Option(
        name=name, kind=kind, default=default, scope=Scope.BROKER, needs_restart=True, doc=doc
    )


class ShareCoordinatorOptions(Config):
    """The topic __share_group_state, and what is kept there."""

    share_coordinator_state_topic_num_partitions = _option(
        "share.coordinator.state.topic.num.partitions",
        Int(min=1),
        50,
        "Partitions of __share_group_state.",
    )
    share_coordinator_state_topic_replication_factor = _option(
        "share.coordinator.state.topic.replication.factor",
        Int(min=1),
        3,
        "The replication factor of __share_group_state. If it is not set, at most the number of"
        " brokers.",
    )
    share_coordinator_state_topic_min_isr = _option(
        "share.coordinator.state.topic.min.isr",
        Int(min=1),
        2,
        "The min.insync.replicas of __share_group_state; a lone broker needs no other replica.",
    )
    share_coordinator_state_topic_segment_bytes = _option(
        "share.coordinator.state.topic.segment.bytes",
        Bytes(min=1),
        104_857_600,
        "The segment.bytes of __share_group_state.",
    )
    share_coordinator_snapshot_update_records_per_snapshot = _option(
        "share.coordinator.snapshot.update.records.per.snapshot",
        Int(min=0, max=500),
        500,
        "The number of updates between two snapshots of the state of a share partition.",
    )
    share_coordinator_load_buffer_size = _option(
        "share.coordinator.load.buffer.size",
        Bytes(min=1),
        5_242_880,
        "How many bytes are read at a time when the state of share partitions is loaded.",
    )
    share_coordinator_write_timeout_ms = _option(
        "share.coordinator.write.timeout.ms",
        Milliseconds(min=1, bits=32),
        5_000,
        "How long a request to the share coordinator of another broker may take.",
    )
    group_share_max_share_sessions = _option(
        "group.share.max.share.sessions",
        Int(min=1),
        2_000,
        "The most share sessions of this broker.",
    )
