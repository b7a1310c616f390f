"""A compacted log and one whole pass of compaction, in process."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from barnabas.log.compaction.cleanable import job_for, look
from barnabas.log.compaction.compaction import Compaction
from barnabas.log.compaction.job import CleanedSegment
from barnabas.log.compaction.segment_swap import SegmentSwap
from barnabas.log.config import LogConfig
from barnabas.log.directory.directory import LogDirectory
from barnabas.log.log import Log
from barnabas.log.segments.scan import headers
from barnabas.model.ports import Disk
from barnabas.wire.batch import BatchHeader
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, decode_batch, encode_batch, iter_batches
from tests.log.batches import NOW

SECRET = bytes(range(16))
KEYS_BYTES = 1 << 16


class Kept(NamedTuple):
    """A record as a reader sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


def keyed(
    pairs: list[tuple[str, str | None]],
    *,
    time: int = NOW,
    codec: Codec = Codec.NONE,
    **options: Any,
) -> memoryview:
    """A batch of these keys and values; None is a tombstone."""
    records = [
        Record(number, time + number, key.encode(), None if value is None else value.encode(), ())
        for number, (key, value) in enumerate(pairs)
    ]
    return memoryview(encode_batch(records, codec=codec, **options))


def put(log: Log, *pairs: tuple[str, str | None], time: int = NOW, **options: Any) -> int:
    base = log.append(keyed(list(pairs), time=time, **options), 0, time).base_offset
    log.advance_high_watermark(log.end_offset)
    return base


def stored(log: Log) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch that a reader gets."""
    offset = log.start_offset
    while offset < log.end_offset:
        found = log.read(offset, 1 << 20, log.end_offset)
        if found.file_slice is None:
            assert found.next_offset == offset
            return
        part = found.file_slice
        for header, batch in iter_batches(part.file.read(part.position, part.length)):
            yield header, bytes(batch)
        assert found.next_offset > offset
        offset = found.next_offset


def on_disk(log: Log) -> list[BatchHeader]:
    """Every batch, those without records too."""
    return [header for each in log.segments for _, header in headers(each.file(), 0, each.size)]


def contents(log: Log) -> list[Kept]:
    return [
        Kept(record.offset, record.key, record.value, record.timestamp)
        for _, batch in stored(log)
        for record in decode_batch(batch)
        if record.offset >= log.start_offset
    ]


def swap(disk: Disk, directory: LogDirectory, log: Log, cleaned: CleanedSegment) -> bool:
    """As the broker has it done, but for its thread."""
    work = SegmentSwap(log, cleaned, directory.delete_later)
    for path in work.steps():
        disk.sync_directory(path)
    return work.done


def compact(
    disk: Disk,
    directory: LogDirectory,
    log: Log,
    wall_ms: int = NOW,
    *,
    keys_bytes: int = KEYS_BYTES,
    pause: Callable[[int], None] = lambda size: None,
) -> Compaction | None:
    """One pass over all that may be compacted, however little that is."""
    found = look(log, wall_ms)
    if not found.dirty_bytes:
        return None
    directory.checkpoint()
    work = Compaction(disk, job_for(found, wall_ms, keys_bytes), SECRET, pause)
    work.map_keys()
    whole = True
    for group in work.groups():
        try:
            cleaned = work.clean(group)
        except FileNotFoundError:
            whole = False  # deleted meanwhile
            break
        whole &= swap(disk, directory, log, cleaned)
    if whole:
        log.cleaned_to = work.end_offset
    directory.checkpoint()
    return work


def compacted(**options: object) -> LogConfig:
    settings: dict[str, object] = {
        "compacted": True,
        "deletes": False,
        "segment_bytes": 600,
        "segment_index_bytes": 4096,
    }
    return LogConfig(**(settings | options))  # type: ignore[arg-type]
