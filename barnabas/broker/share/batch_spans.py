"""The batches of a read, as the decisions about it need them: where each begins, and whether it
is empty for the reader.

In: a slice of a log. Out: its batches by offset and position, one after the other.
Always: only headers are read; the key of a marker too, for readers of committed records. As many
as are asked for.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.coordinators.share.acquiring import BatchSpan
from barnabas.log.segments.scan import headers
from barnabas.model.ports import FileSlice
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader

if TYPE_CHECKING:
    from barnabas.log.log import Log


def spans(found: FileSlice) -> Iterator[BatchSpan]:
    """For readers of uncommitted records: only markers are empty."""
    for position, header in headers(found.file, found.position, found.position + found.length):
        empty = bool(header.attributes & CONTROL) or not header.record_count
        yield BatchSpan(header.base_offset, header.last_offset, position, header.size, empty)


def committed_spans(log: "Log", found: FileSlice, start: int, end: int) -> Iterator[BatchSpan]:
    """For readers of committed records: batches of aborted transactions are empty too."""
    aborted = sorted(log.aborted_in(start, end), key=lambda each: each.first_offset)
    if not aborted:
        yield from spans(found)
        return
    ranges: dict[int, list[tuple[int, int]]] = {}
    for each in aborted:
        ranges.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
    for position, header in headers(found.file, found.position, found.position + found.length):
        empty = bool(header.attributes & CONTROL) or not header.record_count
        if not empty and header.attributes & TRANSACTIONAL:
            empty = _is_aborted(header, ranges)
        yield BatchSpan(header.base_offset, header.last_offset, position, header.size, empty)


def _is_aborted(header: BatchHeader, ranges: dict[int, list[tuple[int, int]]]) -> bool:
    return any(
        first <= header.base_offset <= last for first, last in ranges.get(header.producer_id, ())
    )
