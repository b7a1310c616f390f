"""Segments of a log in rows; no requests."""

from typing import TYPE_CHECKING

from barnabas.client.tables import Row
from barnabas.model.times import iso_time

if TYPE_CHECKING:
    from barnabas.wire.messages.describe_logs import DescribedLog

COLUMNS = (
    "partition", "base_offset", "next_offset", "bytes", "index_entries", "newest", "state",
)  # fmt: skip


def segment_rows(topic: str, log: "DescribedLog") -> list[Row]:
    """Oldest first; the last one is appended to."""
    return [
        {
            "topic": topic,
            "partition": log.partition,
            "base_offset": each.base_offset,
            "next_offset": each.next_offset,
            "bytes": each.bytes,
            "index_entries": each.index_entries,
            "newest_ms": each.newest_ms if each.newest_ms >= 0 else None,
            "newest": iso_time(each.newest_ms) if each.newest_ms >= 0 else None,
            "state": _state(log, each.next_offset, number == len(log.segment_list) - 1),
        }
        for number, each in enumerate(log.segment_list)
    ]


def _state(log: "DescribedLog", next_offset: int, is_last: bool) -> str:
    if is_last:
        return "active"
    if log.dirty_bytes < 0:
        return "sealed"
    return "compacted" if next_offset <= log.cleaned_to else "dirty"
