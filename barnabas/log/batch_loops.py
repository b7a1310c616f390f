# cython: annotation_typing=False, infer_types=False
"""The loops of compaction over ordinary batches: many batches per call.

In: bytes of a segment, and the table of keys. Out: the position where a loop stopped.
Always: a loop stops before a batch that is not ordinary (compressed, of a transaction, with a
tombstone or a delete horizon, empty, damaged, incomplete), and before a batch that must stay
although none of its records does; the caller handles that batch alone, and calls again.
Not here: the handling of such a batch (log/compaction/compaction.py), the loops over records
(log/compaction/key_loops.py).

This is plain Python, compiled if a compiler is available: see compaction/key_loops.py.
"""

from collections.abc import Callable, Mapping

from barnabas.log.compaction.key_loops import OffsetMap
from barnabas.wire.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL,
    CRC,
    CRC_POSITION,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
)
from barnabas.wire.checksum import crc32c

COMPILED = not __file__.endswith(".py")

AddBatch = Callable[[int, int, int, int], None]

_UNUSUAL = CODEC_MASK | CONTROL | TRANSACTIONAL | DELETE_HORIZON
_APPEND_TIME = LOG_APPEND_TIME
_MAGIC = MAGIC
_HEADER_SIZE = HEADER_SIZE
_OVERHEAD = LENGTH_OVERHEAD
_CHECKED = ATTRIBUTES_POSITION
_CRC_AT = CRC_POSITION
_unpack = HEADER.unpack_from
_pack_into = HEADER.pack_into
_pack_crc = CRC.pack_into
_crc32c = crc32c


def map_batches(
    keys: OffsetMap, data: bytes, at: int, first_offset: int, limit: int
) -> tuple[int, int]:
    """Enter the keys of batches below `limit`; where it stopped, and the offset after the last
    (-1: there was none)."""
    next_offset = -1
    while True:
        fields = _usual(data, at)
        if fields is None or fields[0] >= limit:
            return at, next_offset
        base = fields[0]
        last = base + fields[6]
        size = fields[1] + _OVERHEAD
        if last >= first_offset and not keys.add(
            data, at + _HEADER_SIZE, at + size, fields[12], base, first_offset
        ):
            return at, next_offset
        next_offset = last + 1
        at += size


def keep_batches(
    keys: OffsetMap,
    data: bytes,
    at: int,
    last_at: int,
    limit: int,
    producers: Mapping[int, int],
    epoch_starts: frozenset[int],
    out: bytearray,
    written: int,
    add_batch: AddBatch,
) -> tuple[int, int, int, int]:
    """Append the surviving records of batches below `limit` to `out`, and report each batch.

    `last_at`: where in `data` the last batch of all ends; `written`: how much was written before
    what is in `out`. Where it stopped, and how many records were read, kept and without a key.
    """
    read = kept_all = keyless_all = 0
    view = memoryview(data)
    while True:
        fields = _usual(data, at)
        if fields is None or fields[0] >= limit:
            break
        base = fields[0]
        last = base + fields[6]
        size = fields[1] + _OVERHEAD
        count = fields[12]
        if at + size == last_at:
            break
        kept, tombstones, largest, keyless, runs = keys.survey(
            data, at + _HEADER_SIZE, at + size, count, base, fields[7], limit - 1, False
        )
        if tombstones or (not kept and (producers.get(fields[9]) == last or base in epoch_starts)):
            break
        start = len(out)
        if kept == count:
            add_batch(written + start, size, last, fields[8])
            out += view[at : at + size]
        elif kept:
            timestamp = fields[8] if fields[5] & _APPEND_TIME else largest
            out += view[at : at + _HEADER_SIZE]
            for i in range(0, len(runs), 2):
                out += view[runs[i] : runs[i + 1]]
            _seal(out, start, fields, timestamp, kept)
            add_batch(written + start, len(out) - start, last, timestamp)
        read += count
        kept_all += kept
        keyless_all += keyless
        at += size
    return at, read, kept_all, keyless_all


def _usual(data: bytes, at: int) -> tuple[int, ...] | None:
    """The header of the batch at `at`, if it is complete, valid and ordinary."""
    left = len(data) - at
    if left < _HEADER_SIZE:
        return None
    fields = _unpack(data, at)
    size = fields[1] + _OVERHEAD
    if (
        fields[3] != _MAGIC
        or size < _HEADER_SIZE
        or size > left
        or fields[5] & _UNUSUAL
        or fields[0] < 0
        or fields[6] < 0
        or fields[12] <= 0
        or _crc32c(memoryview(data)[at + _CHECKED : at + size]) != fields[4]
    ):
        return None
    return fields


def _seal(out: bytearray, start: int, old: tuple[int, ...], timestamp: int, count: int) -> None:
    """Writes the header of the batch from `start` to the end, which has lost records."""
    length = len(out) - start - _OVERHEAD
    _pack_into(
        out, start, old[0], length, old[2], _MAGIC, 0, *old[5:8], timestamp, *old[9:12], count
    )
    _pack_crc(out, start + _CRC_AT, _crc32c(memoryview(out)[start + _CHECKED :]))
