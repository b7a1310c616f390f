"""Every option of a topic.

Names, defaults and bounds are Kafka's, so that Kafka's tools and clients can set them.
`unsupported` has Kafka's options that are not implemented: they are described, and accept only
their default.
"""

from collections.abc import Mapping

from barnabas.config.kinds import (
    LONG_MAX,
    Bool,
    Bytes,
    ConfigType,
    Enum,
    Fixed,
    Float,
    Int,
    List,
    Long,
    Milliseconds,
    PartitionOffsets,
    Text,
    ThrottledReplicas,
)
from barnabas.config.option import Option, Scope, declared, invalid
from barnabas.config.resolve import NO_LAYERS, Config, Layers

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS


class TopicConfig(Config):
    """The effective options of one topic, parsed."""

    barnabas_delivery_delay_ms = Option[int](
        name="barnabas.delivery.delay.ms",
        kind=Milliseconds(min=0, max=30 * DAY_MS),
        default=0,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="Consumers receive a record this long after it was appended. Requires "
        "message.timestamp.type=LogAppendTime. An option of Barnabas.",
    )
    barnabas_scheduler = Option[bool](
        name="barnabas.scheduler",
        kind=Bool(),
        default=False,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="A holding topic: `barnabas delay run` delivers its records at the times in their "
        "headers. Requires retention.ms=-1. An option of Barnabas.",
    )
    cleanup_policy = Option[tuple[str, ...]](
        name="cleanup.policy",
        kind=List("delete", "compact"),
        default=("delete",),
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="What happens to old records: delete whole segments past the retention limits, "
        "compact to the last record of each key, both, or (empty) keep all.",
        synonyms=("log.cleanup.policy",),
    )
    compression_type = Option[str](
        name="compression.type",
        kind=Enum("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        default="producer",
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="The codec of stored batches; producer keeps each batch as it was sent.",
        synonyms=("compression.type",),
    )
    delete_retention_ms = Option[int](
        name="delete.retention.ms",
        kind=Milliseconds(min=0),
        default=DAY_MS,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="How long compaction keeps a tombstone, so that consumers can read it.",
        synonyms=("log.cleaner.delete.retention.ms",),
    )
    file_delete_delay_ms = Option[int](
        name="file.delete.delay.ms",
        kind=Milliseconds(min=0),
        default=60_000,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="How long a deleted segment stays on disk, so that current reads can finish.",
        synonyms=("log.segment.delete.delay.ms",),
    )
    flush_messages = Option[int](
        name="flush.messages",
        kind=Long(min=1),
        default=LONG_MAX,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="Sync the log to disk after this many records.",
        synonyms=("log.flush.interval.messages",),
    )
    flush_ms = Option[int](
        name="flush.ms",
        kind=Milliseconds(min=0),
        default=LONG_MAX,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="Sync the log to disk when a record has waited this long for it.",
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    index_interval_bytes = Option[int](
        name="index.interval.bytes",
        kind=Bytes(min=0),
        default=4096,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="An index entry is written after about this many bytes of log.",
        synonyms=("log.index.interval.bytes",),
    )
    lake = Option[str](
        name="lake",
        kind=Enum("none", "iceberg", "delta"),
        default="none",
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="`barnabas pipeline serve` keeps a table of this format with the records of the topic.",
    )
    lake_table = Option[str](
        name="lake.table",
        kind=Text(),
        default="",
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="The table with its namespace; empty: as the template of `barnabas pipeline serve` "
        "names it.",
    )
    lake_lag_ms = Option[int](
        name="lake.lag.ms",
        kind=Milliseconds(min=100),
        default=10_000,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="The time between two batches into the table.",
    )
    lake_retention_wait = Option[bool](
        name="lake.retention.wait",
        kind=Bool(),
        default=False,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="Keep segments past their retention until their records are in the table "
        "(`lake.offsets`), or until the partition is larger than `lake.retention.wait.bytes`.",
    )
    lake_retention_wait_bytes = Option[int](
        name="lake.retention.wait.bytes",
        kind=Bytes(bits=64, min=0),
        default=10_737_418_240,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="While a partition is larger than this, its oldest segments past their retention are "
        "deleted although they are not in the table.",
    )
    lake_offsets = Option[tuple[str, ...]](
        name="lake.offsets",
        kind=PartitionOffsets(),
        default=(),
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="Up to which offset the records of each partition are in the table. Set by "
        "`barnabas pipeline serve`.",
    )
    max_compaction_lag_ms = Option[int](
        name="max.compaction.lag.ms",
        kind=Milliseconds(min=1),
        default=LONG_MAX,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="A record is compacted at the latest after this time.",
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    )
    max_message_bytes = Option[int](
        name="max.message.bytes",
        kind=Bytes(min=0),
        default=1_048_588,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="The largest record batch accepted, compressed as it was sent.",
        synonyms=("message.max.bytes",),
    )
    message_timestamp_after_max_ms = Option[int](
        name="message.timestamp.after.max.ms",
        kind=Milliseconds(min=0),
        default=3_600_000,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="How far a record's timestamp may be ahead of the broker's clock.",
        synonyms=("log.message.timestamp.after.max.ms",),
    )
    message_timestamp_before_max_ms = Option[int](
        name="message.timestamp.before.max.ms",
        kind=Milliseconds(min=0),
        default=LONG_MAX,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="How far a record's timestamp may be behind the broker's clock.",
        synonyms=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_type = Option[str](
        name="message.timestamp.type",
        kind=Enum("CreateTime", "LogAppendTime"),
        default="CreateTime",
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="Which timestamp a record gets: the producer's (CreateTime), or the broker's "
        "when it is appended (LogAppendTime).",
        synonyms=("log.message.timestamp.type",),
    )
    min_cleanable_dirty_ratio = Option[float](
        name="min.cleanable.dirty.ratio",
        kind=Float(min=0, max=1),
        default=0.5,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="A log is compacted when this fraction of it has been written since the last "
        "compaction.",
        synonyms=("log.cleaner.min.cleanable.ratio",),
    )
    min_compaction_lag_ms = Option[int](
        name="min.compaction.lag.ms",
        kind=Milliseconds(min=0),
        default=0,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="A record is not compacted before this time has passed.",
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    )
    leader_replication_throttled_replicas = Option[tuple[str, ...]](
        name="leader.replication.throttled.replicas",
        kind=ThrottledReplicas(),
        default=(),
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="Which leaders obey `leader.replication.throttled.rate` while replicas catch up.",
    )
    follower_replication_throttled_replicas = Option[tuple[str, ...]](
        name="follower.replication.throttled.replicas",
        kind=ThrottledReplicas(),
        default=(),
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="Which followers obey `follower.replication.throttled.rate` while they catch up.",
    )
    min_insync_replicas = Option[int](
        name="min.insync.replicas",
        kind=Int(min=1),
        default=1,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="With acks=all, a write is refused while fewer replicas than this are in sync.",
        synonyms=("min.insync.replicas",),
    )
    retention_bytes = Option[int](
        name="retention.bytes",
        kind=Bytes(bits=64),
        default=-1,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="The oldest segments of a partition are deleted while it is larger than this; "
        "negative: no limit.",
        synonyms=("log.retention.bytes",),
    )
    retention_ms = Option[int](
        name="retention.ms",
        kind=Milliseconds(min=-1),
        default=WEEK_MS,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="A segment is deleted when its newest record is older than this; -1: no limit.",
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    segment_bytes = Option[int](
        name="segment.bytes",
        kind=Bytes(min=14),
        default=1_073_741_824,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="A segment that would become larger than this is closed, and a new one is created.",
        synonyms=("log.segment.bytes",),
    )
    segment_index_bytes = Option[int](
        name="segment.index.bytes",
        kind=Bytes(min=4),
        default=10_485_760,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="The size of a segment's index; a segment whose index is full is closed.",
        synonyms=("log.index.size.max.bytes",),
    )
    segment_jitter_ms = Option[int](
        name="segment.jitter.ms",
        kind=Milliseconds(min=0),
        default=0,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="A random time up to this is subtracted from segment.ms, so that segments do not "
        "all roll at the same time.",
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    segment_ms = Option[int](
        name="segment.ms",
        kind=Milliseconds(min=1),
        default=WEEK_MS,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="A segment older than this is closed even if it is not full.",
        synonyms=("log.roll.ms", "log.roll.hours"),
    )
    unclean_leader_election_enable = Option[bool](
        name="unclean.leader.election.enable",
        kind=Bool(),
        default=False,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc="Elect a replica that is not in sync when no in-sync replica is available; "
        "committed records may be lost.",
        synonyms=("unclean.leader.election.enable",),
    )

    def __init__(self, overrides: Mapping[str, str] | None = None, layers: Layers = NO_LAYERS):
        super().__init__(OPTIONS, overrides or {}, layers)
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise invalid(
                f"min.compaction.lag.ms = {self.min_compaction_lag_ms} is larger than "
                f"max.compaction.lag.ms = {self.max_compaction_lag_ms}: lower the one or "
                "raise the other"
            )
        if self.barnabas_delivery_delay_ms:
            self._check_delay(self.barnabas_delivery_delay_ms)
        keeps = self.cleanup_policy in ((), ("delete",)) and self.retention_ms == -1
        if self.barnabas_scheduler and not (keeps and self.retention_bytes == -1):
            raise invalid(
                "barnabas.scheduler = true requires retention.ms = -1, retention.bytes = -1 and"
                " cleanup.policy = delete: set them too. Records would be removed before they are"
                " delivered; the delayer deletes those that were"
            )

    def _check_delay(self, delay_ms: int) -> None:
        name = f"barnabas.delivery.delay.ms = {delay_ms}"
        if self.message_timestamp_type != "LogAppendTime":
            raise invalid(f"{name} requires message.timestamp.type = LogAppendTime: set both")
        if "compact" in self.cleanup_policy:
            raise invalid(
                f"{name} cannot be used with cleanup.policy = compact: records would be removed"
                " before they are delivered"
            )
        if "delete" in self.cleanup_policy and 0 <= self.retention_ms <= delay_ms:
            raise invalid(
                f"{name} is not below retention.ms = {self.retention_ms}: records would be deleted"
                " before they are delivered"
            )


def _unsupported(name: str, default: str, type: ConfigType, doc: str) -> Option[str]:
    return Option(
        name=name,
        kind=Fixed(default, type),
        default=default,
        scope=Scope.TOPIC,
        needs_restart=False,
        doc=doc,
    )


UNSUPPORTED = {
    option.name: option
    for option in (
        _unsupported("compression.gzip.level", "-1", ConfigType.INT, "Batches stay as sent."),
        _unsupported("compression.lz4.level", "9", ConfigType.INT, "Batches stay as sent."),
        _unsupported("compression.zstd.level", "3", ConfigType.INT, "Batches stay as sent."),
        _unsupported("local.retention.bytes", "-2", ConfigType.LONG, "No tiered storage."),
        _unsupported("local.retention.ms", "-2", ConfigType.LONG, "No tiered storage."),
        _unsupported("preallocate", "false", ConfigType.BOOLEAN, "Files grow as written."),
        _unsupported("remote.log.copy.disable", "false", ConfigType.BOOLEAN, "No tiered storage."),
        _unsupported(
            "remote.log.delete.on.disable", "false", ConfigType.BOOLEAN, "No tiered storage."
        ),
        _unsupported("remote.storage.enable", "false", ConfigType.BOOLEAN, "No tiered storage."),
    )
}
OPTIONS = {option.name: option for option in declared(TopicConfig)}
ALL = dict(sorted((OPTIONS | UNSUPPORTED).items()))
# Not Kafka's: described only where they are set.
OWN = frozenset(name for name in OPTIONS if name.split(".")[0] in ("lake", "barnabas"))
