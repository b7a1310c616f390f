"""Broker options about logs: the defaults of topic options, and housekeeping.

The defaults go by Kafka's older names (log.segment.bytes gives segment.bytes its default).
"""

from barnabas.config.kinds import LONG_MAX, Bool, Bytes, Float, Int, Milliseconds
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config
from barnabas.config.topic import TopicConfig

DOUBLE_MAX = 1.7976931348623157e308


class LogOptions(Config):
    """Defaults of topic options, and how often logs are looked after."""

    log_cleanup_policy = TopicConfig.cleanup_policy.for_topics("log.cleanup.policy")
    compression_type = TopicConfig.compression_type.for_topics("compression.type")
    log_cleaner_delete_retention_ms = TopicConfig.delete_retention_ms.for_topics(
        "log.cleaner.delete.retention.ms"
    )
    log_segment_delete_delay_ms = TopicConfig.file_delete_delay_ms.for_topics(
        "log.segment.delete.delay.ms"
    )
    log_flush_interval_messages = TopicConfig.flush_messages.for_topics(
        "log.flush.interval.messages"
    )
    log_index_interval_bytes = TopicConfig.index_interval_bytes.for_topics(
        "log.index.interval.bytes"
    )
    log_cleaner_max_compaction_lag_ms = TopicConfig.max_compaction_lag_ms.for_topics(
        "log.cleaner.max.compaction.lag.ms"
    )
    message_max_bytes = TopicConfig.max_message_bytes.for_topics("message.max.bytes")
    log_message_timestamp_after_max_ms = TopicConfig.message_timestamp_after_max_ms.for_topics(
        "log.message.timestamp.after.max.ms"
    )
    log_message_timestamp_before_max_ms = TopicConfig.message_timestamp_before_max_ms.for_topics(
        "log.message.timestamp.before.max.ms"
    )
    log_message_timestamp_type = TopicConfig.message_timestamp_type.for_topics(
        "log.message.timestamp.type"
    )
    log_cleaner_min_cleanable_ratio = TopicConfig.min_cleanable_dirty_ratio.for_topics(
        "log.cleaner.min.cleanable.ratio"
    )
    log_cleaner_min_compaction_lag_ms = TopicConfig.min_compaction_lag_ms.for_topics(
        "log.cleaner.min.compaction.lag.ms"
    )
    min_insync_replicas = TopicConfig.min_insync_replicas.for_topics("min.insync.replicas")
    log_retention_bytes = TopicConfig.retention_bytes.for_topics("log.retention.bytes")
    log_segment_bytes = TopicConfig.segment_bytes.for_topics("log.segment.bytes")
    log_index_size_max_bytes = TopicConfig.segment_index_bytes.for_topics(
        "log.index.size.max.bytes"
    )
    unclean_leader_election_enable = TopicConfig.unclean_leader_election_enable.for_topics(
        "unclean.leader.election.enable"
    )
    log_retention_ms = Option[int | None](
        name="log.retention.ms",
        kind=Milliseconds(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="Default of the topic option retention.ms; unset: log.retention.minutes.",
    )
    log_retention_minutes = Option[int | None](
        name="log.retention.minutes",
        kind=Int(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Default of the topic option retention.ms, in minutes; unset: log.retention.hours.",
    )
    log_retention_hours = Option[int](
        name="log.retention.hours",
        kind=Int(),
        default=168,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Default of the topic option retention.ms, in hours; negative: no limit.",
    )
    log_roll_ms = Option[int | None](
        name="log.roll.ms",
        kind=Milliseconds(min=1),
        default=None,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="Default of the topic option segment.ms; unset: log.roll.hours.",
    )
    log_roll_hours = Option[int](
        name="log.roll.hours",
        kind=Int(min=1),
        default=168,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Default of the topic option segment.ms, in hours.",
    )
    log_roll_jitter_ms = Option[int | None](
        name="log.roll.jitter.ms",
        kind=Milliseconds(min=0),
        default=None,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="Default of the topic option segment.jitter.ms; unset: log.roll.jitter.hours.",
    )
    log_roll_jitter_hours = Option[int](
        name="log.roll.jitter.hours",
        kind=Int(min=0),
        default=0,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Default of the topic option segment.jitter.ms, in hours.",
    )
    log_flush_interval_ms = Option[int | None](
        name="log.flush.interval.ms",
        kind=Milliseconds(min=0),
        default=None,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="Default of the topic option flush.ms; unset: log.flush.scheduler.interval.ms.",
    )
    log_flush_scheduler_interval_ms = Option[int](
        name="log.flush.scheduler.interval.ms",
        kind=Milliseconds(min=1),
        default=LONG_MAX,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Default of the topic option flush.ms when log.flush.interval.ms is unset; "
        "flushes that are due are looked for every second.",
    )
    log_flush_offset_checkpoint_interval_ms = Option[int](
        name="log.flush.offset.checkpoint.interval.ms",
        kind=Milliseconds(min=0, bits=32),
        default=60_000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="How often the offset up to which each log is on disk is written down; "
        "after a crash, a log is checked from there.",
    )
    log_retention_check_interval_ms = Option[int](
        name="log.retention.check.interval.ms",
        kind=Milliseconds(min=1),
        default=300_000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="How often logs are looked at for segments past their retention.",
    )
    log_initial_task_delay_ms = Option[int](
        name="log.initial.task.delay.ms",
        kind=Milliseconds(min=0),
        default=30_000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="How long after a start logs are first looked at for segments past their retention.",
    )
    log_cleaner_enable = Option[bool](
        name="log.cleaner.enable",
        kind=Bool(),
        default=True,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Run log compaction.",
    )
    log_cleaner_backoff_ms = Option[int](
        name="log.cleaner.backoff.ms",
        kind=Milliseconds(min=0),
        default=15_000,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="How long the cleaner waits when no log is dirty enough.",
    )
    log_cleaner_dedupe_buffer_size = Option[int](
        name="log.cleaner.dedupe.buffer.size",
        kind=Bytes(min=1_048_576, bits=64),
        default=67_108_864,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="Memory for the keys that one pass of compaction may know: 24 bytes each, and a "
        "tenth to spare. A log with more keys takes several passes. (Kafka's default is twice "
        "that; the whole worker process is to stay within 128 MB.)",
    )
    log_cleaner_io_max_bytes_per_second = Option[float](
        name="log.cleaner.io.max.bytes.per.second",
        kind=Float(min=1, max=DOUBLE_MAX),
        default=DOUBLE_MAX,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="The most that compaction reads and writes in a second, on average.",
    )
