"""The files of a partition's directory by kind, from their names alone."""

from typing import NamedTuple

from barnabas.log.producers.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from barnabas.log.segments.segment import (
    ABORTED_INDEX_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
)

MOVED_AWAY = "moved-away"  # a file in the source of a log that moves to another directory
_OFFSET_DIGITS = 20


class PartitionFiles(NamedTuple):
    """The files of a partition directory, by kind."""

    logs: list[int]
    offset_indexes: list[int]
    time_indexes: list[int]
    aborted_indexes: list[int]
    snapshots: list[int]
    others: list[str]


def sort_names(names: list[str]) -> PartitionFiles:
    sorted_names = PartitionFiles([], [], [], [], [], [])
    kinds = {
        LOG_SUFFIX: sorted_names.logs,
        INDEX_SUFFIX: sorted_names.offset_indexes,
        TIME_INDEX_SUFFIX: sorted_names.time_indexes,
        ABORTED_INDEX_SUFFIX: sorted_names.aborted_indexes,
        SNAPSHOT_SUFFIX: sorted_names.snapshots,
    }
    for name in names:
        offset, suffix = name[:_OFFSET_DIGITS], name[_OFFSET_DIGITS:]
        kind = kinds.get(suffix)
        if kind is not None and offset.isascii() and offset.isdigit():
            kind.append(int(offset))
        else:
            sorted_names.others.append(name)
    return sorted_names
