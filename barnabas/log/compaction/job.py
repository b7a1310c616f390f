"""What a compaction is asked for and what it answers, and the names of the files in between."""

from typing import NamedTuple

from barnabas.log.segments.segment import (
    ABORTED_INDEX_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
)

CLEANED_SUFFIX = ".cleaned"  # being written: a start removes it
SWAP_SUFFIX = ".swap"  # whole and synced: a start puts it in its place
BASES_SUFFIX = ".bases"
DELETED_SUFFIX = ".deleted"  # not needed any more: a start removes it


class SealedSegment(NamedTuple):
    """A sealed segment. `has_aborted`: it has an index of aborted transactions."""

    base_offset: int
    next_offset: int
    size: int
    has_aborted: bool = False


class CompactionJob(NamedTuple):
    """One pass over one log. `dirty_from` to `dirty_to` has not been compacted yet."""

    path: str
    sources: list[SealedSegment]
    dirty_from: int
    dirty_to: int
    wall_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    producers: dict[int, int]  # active ones, and the last offset of each
    # Where leader epochs begin, after the start of the log: another replica learns them by copying.
    epoch_starts: list[int]
    # Active ones of which no batch is known, and the epoch of each: the marker has it.
    marked_epochs: dict[int, int]
    # Transactions with records below `dirty_to` and an abort marker behind it: producer, first
    # offset, marker, stable offset.
    aborted_behind: list[tuple[int, int, int, int]]
    keys_bytes_max: int
    cuts: int  # truncations that the log had seen: after another, its segments may be others


class CleanedSegment(NamedTuple):
    """A new segment under its `.cleaned` name, and the ones whose place it takes."""

    bases: list[int]
    size: int
    bytes_read: int
    records_read: int
    records_kept: int
    keyless: int
    cuts: int  # of the job
    has_aborted: bool  # aborted transactions of all of them are in a `.cleaned` index


def cleaned_paths(
    directory: str, base_offset: int, suffix: str = CLEANED_SUFFIX
) -> tuple[str, str, str]:
    """Indexes first: a log file without them is sound, they without it are not."""
    stem = f"{directory}/{base_offset:020d}"
    return (
        stem + INDEX_SUFFIX + suffix,
        stem + TIME_INDEX_SUFFIX + suffix,
        stem + LOG_SUFFIX + suffix,
    )


def aborted_path(directory: str, base_offset: int, suffix: str = CLEANED_SUFFIX) -> str:
    """The index of aborted transactions; not every segment has one."""
    return f"{directory}/{base_offset:020d}{ABORTED_INDEX_SUFFIX}{suffix}"


def bases_path(directory: str, base_offset: int, suffix: str = CLEANED_SUFFIX) -> str:
    """The file beside a new segment that names the old ones, for a start after a crash."""
    return f"{directory}/{base_offset:020d}{BASES_SUFFIX}{suffix}"


def encode_bases(bases: list[int]) -> bytes:
    return "".join(f"{base}\n" for base in bases).encode()


def decode_bases(data: bytes) -> list[int]:
    """ValueError if it is not what was written."""
    return [int(line) for line in data.decode("ascii").splitlines()]
