"""The configuration of one log: the topic options that concern its files, checks and retention."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
INT64_MAX = 2**63 - 1
NO_LIMIT = -1


@dataclass(slots=True)
class LogConfig:
    """Replace it at any time (`log.config = other`); the next append obeys."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    timestamp_type: Literal["create", "append"] = "create"
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = HOUR_MS
    producer_id_expiration_ms: int = DAY_MS
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    # Retention: these two count only where old segments are deleted.
    deletes: bool = True
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = NO_LIMIT
    # By partition, up to where a table has the records; None: retention waits for no table.
    table_offsets: Mapping[int, int] | None = None
    waiting_bytes_max: int = 0
    file_delete_delay_ms: int = 60_000
    # A compacted log has holes between its batches, so recovery must not take one for damage.
    compacted: bool = False
    copied: bool = False  # from another one, perhaps, which may have been compacted
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
