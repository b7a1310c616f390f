"""What one log may be told: the topic options that shape files and refuse batches."""

from dataclasses import dataclass
from typing import Literal

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
INT64_MAX = 2**63 - 1


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
    # A compacted log has holes between its batches, so recovery must not take one for damage.
    compacted: bool = False
