"""Inspects the files of a partition, written by Barnabas or by Kafka, and reports problems.

In: a partition's directory. Out: every batch, every problem with its place; what can be saved.
Always: reading changes nothing; `save` writes beside the damaged file before it takes its place.
Not here: what a broker does about damage when it starts (log_recovery.py).
"""

from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from barnabas.log.directory.checkpoints import RECOVERY_POINT, decode_offsets, encode_offsets
from barnabas.log.segments.scan import CHECKED_CHUNK_SIZE, chain_problem
from barnabas.model.errors import Corrupt
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import Disk, File
from barnabas.wire.batch import HEADER, HEADER_SIZE, MAGIC, BatchHeader, check_crc
from barnabas.wire.records import decode_batch

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SAVED_SUFFIX = ".saved"
DAMAGED_SUFFIX = ".damaged"
_NAME_DIGITS = 20
_MAGIC_POSITION = 16
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


class InspectedBatch(NamedTuple):
    """A batch, or `size` bytes that are none: then `problem` says why."""

    position: int
    size: int
    header: BatchHeader | None
    problem: str


class FileProblem(NamedTuple):
    path: str
    position: int  # -1: the file as a whole
    what: str


class RepairResult(NamedTuple):
    """What a repaired segment has kept and lost."""

    path: str
    batches: int
    records: int
    bytes_kept: int
    bytes_lost: int


def segments(disk: Disk, directory: str) -> list[int]:
    """The base offsets of a partition's segments, lowest first."""
    stems = (name.removesuffix(LOG_SUFFIX) for name in disk.list(directory) if _is_log(name))
    return sorted(int(stem) for stem in stems)


def _is_log(name: str) -> bool:
    stem = name.removesuffix(LOG_SUFFIX)
    return name.endswith(LOG_SUFFIX) and len(stem) == _NAME_DIGITS and stem.isdecimal()


def path_of(directory: str, base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    return f"{directory}/{base_offset:0{_NAME_DIGITS}d}{suffix}"


def batches(file: File) -> Iterator[InspectedBatch]:
    """From end to end: after bytes that are no batch, the next one that is."""
    end = file.size()
    position = 0
    while position < end:
        header, problem = _batch_at(file, position, end)
        size = header.size if header is not None else _next_batch(file, position, end) - position
        yield InspectedBatch(position, size, header, problem)
        position += size


def _batch_at(file: File, position: int, end: int) -> tuple[BatchHeader | None, str]:
    start = file.read(position, HEADER_SIZE)
    if len(start) < HEADER_SIZE:
        return None, f"{len(start)} bytes are too few for a batch"
    header = BatchHeader._make(HEADER.unpack_from(start))
    if problem := chain_problem(header, end - position):
        return None, problem
    try:
        check_crc(file.read(position, header.size), header)
    except Corrupt as error:
        return None, error.detail
    return header, ""


def _next_batch(file: File, position: int, end: int) -> int:
    """Where the next whole batch begins, or the end: magic, length and checksum must fit."""
    position += 1
    while position + HEADER_SIZE <= end:
        chunk = file.read(position, CHECKED_CHUNK_SIZE + _MAGIC_POSITION)
        found = chunk.find(MAGIC, _MAGIC_POSITION)
        while found >= 0:
            start = position + found - _MAGIC_POSITION
            if _batch_at(file, start, end)[0] is not None:
                return start
            found = chunk.find(MAGIC, found + 1)
        position += CHECKED_CHUNK_SIZE
    return end


def problems(disk: Disk, directory: str, base_offset: int, *, clean: bool) -> Iterator[FileProblem]:
    """All that is wrong with one segment: batches, records, both indexes.

    `clean`: the broker was stopped in order; else the end of an index may be unused.
    """
    path = path_of(directory, base_offset)
    file = disk.open(path)
    places: dict[int, int] = {}  # last offset of a batch: its position
    times: list[tuple[int, int]] = []  # largest timestamp and base offset of each batch
    try:
        expected = base_offset
        for seen in batches(file):
            header = seen.header
            if header is None:
                yield FileProblem(path, seen.position, f"{seen.problem}; {seen.size} bytes lost")
                continue
            if header.base_offset < expected:
                what = f"offsets go back from {expected} to {header.base_offset}"
                yield FileProblem(path, seen.position, what)
            expected = header.last_offset + 1
            if what := _records_problem(file, seen.position, header):
                yield FileProblem(path, seen.position, what)
            places[header.last_offset] = seen.position
            times.append((header.max_timestamp, header.base_offset))
    finally:
        file.close()
    yield from _index_problems(disk, directory, base_offset, places, clean)
    yield from _time_index_problems(disk, directory, base_offset, times, clean)


def _records_problem(file: File, position: int, header: BatchHeader) -> str:
    try:
        records = decode_batch(file.read(position, header.size), header=header, crc=False)
    except Corrupt as error:
        return f"records cannot be read: {error.detail}"
    if any(later.offset <= earlier.offset for earlier, later in pairwise(records)):
        return "offsets of its records are out of order"
    return ""


def _index_problems(
    disk: Disk, directory: str, base_offset: int, places: dict[int, int], clean: bool
) -> Iterator[FileProblem]:
    path = path_of(directory, base_offset, INDEX_SUFFIX)
    if not disk.exists(path):
        yield FileProblem(path, -1, "is missing; the broker rebuilds it when it starts")
        return
    data = disk.read_file(path)
    starts = set(places.values())
    for number, (relative, position) in enumerate(_entries(data, _OFFSET_ENTRY, clean)):
        if position not in starts:
            what = f"entry {number} points at {position}, where no batch begins"
            yield FileProblem(path, number * _OFFSET_ENTRY.size, what)
        elif places.get(base_offset + relative) != position:
            what = f"entry {number} says offset {base_offset + relative} is at {position}"
            yield FileProblem(path, number * _OFFSET_ENTRY.size, what)


def _time_index_problems(
    disk: Disk, directory: str, base_offset: int, times: list[tuple[int, int]], clean: bool
) -> Iterator[FileProblem]:
    path = path_of(directory, base_offset, TIME_INDEX_SUFFIX)
    if not disk.exists(path):
        yield FileProblem(path, -1, "is missing; the broker rebuilds it when it starts")
        return
    largest, behind = -1, 0
    before = -1
    for number, (time, relative) in enumerate(_entries(disk.read_file(path), _TIME_ENTRY, clean)):
        while behind < len(times) and times[behind][1] <= base_offset + relative:
            largest = max(largest, times[behind][0])
            behind += 1
        if time < before or time > largest:
            what = f"entry {number} says time {time} is reached by offset {base_offset + relative}"
            yield FileProblem(path, number * _TIME_ENTRY.size, what)
        before = time


def _entries(data: bytes, entry: Struct, clean: bool) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = list(
        entry.iter_unpack(data[: len(data) // entry.size * entry.size])
    )
    if not clean:
        while found and not any(found[-1]):
            found.pop()
    return found


def save(disk: Disk, directory: str, base_offset: int) -> RepairResult:
    """Put every whole batch in a new file in the segment's place; the old one stays beside it.

    The indexes are removed: the broker rebuilds them. A lost offset stays a gap.
    """
    path = path_of(directory, base_offset)
    source = disk.open(path)
    kept = records = written = lost = 0
    target = disk.open(path + SAVED_SUFFIX, create=True)
    try:
        target.truncate(0)
        expected = base_offset
        for seen in batches(source):
            header = seen.header
            if header is None or header.base_offset < expected:
                lost += seen.size
                continue
            target.write(written, source.read(seen.position, seen.size))
            expected = header.last_offset + 1
            written += seen.size
            kept += 1
            records += header.record_count
        target.sync()
    finally:
        source.close()
        target.close()
    disk.rename(path, path + DAMAGED_SUFFIX)
    disk.rename(path + SAVED_SUFFIX, path)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        disk.remove(path_of(directory, base_offset, suffix))
    disk.sync_directory(directory)
    return RepairResult(path, kept, records, written, lost)


def vouch(disk: Disk, data: str, partition: TopicPartition) -> None:
    """Say on disk that all of this log was looked at: a start must not take its gaps for damage."""
    directory = f"{data}/{partition}"
    end = 0
    for base in segments(disk, directory):
        file = disk.open(path_of(directory, base))
        try:
            file.sync()
            end = max([end, base, *(s.header.last_offset + 1 for s in batches(file) if s.header)])
        finally:
            file.close()
    path = f"{data}/{RECOVERY_POINT}"
    offsets = decode_offsets(disk.read_file(path)) if disk.exists(path) else {}
    offsets[partition] = end
    disk.replace_file(path, encode_offsets(offsets.items()))
