"""Record batches to produce: good ones of every kind, and ones that are wrong in one thing.

Always: a forged header has a checksum that fits, unless the checksum is what is wrong; so each
check behind it is reached.
"""

from random import Random
from struct import pack_into
from typing import Any

from crc32c import crc32c

from barnabas.wire.batch import (
    ATTRIBUTES_POSITION,
    CONTROL,
    CRC_POSITION,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
)
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, encode_batch
from tests.raw import batch_of

PRODUCERS = range(9_000, 9_008)
BOMB_SIZE = 8 << 20
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


def forge(batch: bytes | bytearray, **fields: int) -> bytes:
    """The same batch with other header fields, and the checksum made to fit."""
    forged = bytearray(batch)
    header = BatchHeader._make(HEADER.unpack_from(forged))._replace(**fields)
    HEADER.pack_into(forged, 0, *header)
    if "crc" not in fields:
        pack_into(">I", forged, CRC_POSITION, crc32c(bytes(forged[ATTRIBUTES_POSITION:])))
    return bytes(forged)


def bomb(size: int = BOMB_SIZE, codec: Codec = Codec.ZSTD) -> bytes:
    """A small batch that unpacks into one large record."""
    return bytes(batch_of(bytes(size), codec=codec))


def good(random: Random) -> list[bytes]:
    values = [b"v" * size for size in (0, 1, 30)]
    plain = [batch_of(*values, codec=codec) for codec in Codec]
    plain.append(
        encode_batch(
            [
                Record(0, 1_700_000_000_000, b"key", None, (("h", b"1"), ("n", None))),
                Record(1, 1_600_000_000_000, None, b"value"),
            ]
        )
    )
    sequences = [
        batch_of(b"s", producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        for producer in PRODUCERS
        for epoch in (0, 1)
        for sequence in random.sample(range(20), 3)
    ]
    return [bytes(batch) for batch in plain + sequences]


_WRONG: list[dict[str, Any]] = [
    {"crc": 0},
    {"magic": 0},
    {"magic": 1},
    {"magic": 3},
    {"magic": -1},
    {"length": -1},
    {"length": 0},
    {"length": 48},
    {"length": _INT32_MAX},
    {"length": -(2**31)},
    {"base_offset": 1},
    {"base_offset": -1},
    {"base_offset": _INT64_MAX},
    {"record_count": 0},
    {"record_count": -1},
    {"record_count": 2},
    {"record_count": _INT32_MAX},
    {"last_offset_delta": -1},
    {"last_offset_delta": 7},
    {"last_offset_delta": _INT32_MAX, "record_count": -(2**31)},
    {"last_offset_delta": _INT32_MAX - 1, "record_count": _INT32_MAX},
    {"record_count": 1_000_000, "last_offset_delta": 999_999},
    {"attributes": 5},
    {"attributes": 7},
    {"attributes": int(Codec.GZIP)},
    {"attributes": int(Codec.SNAPPY)},
    {"attributes": int(Codec.LZ4)},
    {"attributes": int(Codec.ZSTD)},
    {"attributes": TRANSACTIONAL},
    {"attributes": CONTROL},
    {"attributes": LOG_APPEND_TIME},
    {"attributes": DELETE_HORIZON},
    {"attributes": -1},
    {"attributes": 0x7FF8},
    {"max_timestamp": _INT64_MAX},
    {"max_timestamp": -(2**63)},
    {"base_timestamp": _INT64_MAX},
    {"base_timestamp": -(2**63), "max_timestamp": _INT64_MAX},
    {"base_timestamp": -1, "max_timestamp": -1},
    {"producer_id": 9_000},
    {"producer_id": 9_000, "producer_epoch": 0, "base_sequence": -1},
    {"producer_id": 9_000, "producer_epoch": -1, "base_sequence": 0},
    {"producer_id": 9_000, "producer_epoch": 1, "base_sequence": _INT32_MAX},
    {"producer_id": -2, "producer_epoch": 0, "base_sequence": 0},
    {"producer_id": _INT64_MAX, "producer_epoch": 32767, "base_sequence": 0},
    {"leader_epoch": _INT32_MAX},
]


def wrong() -> list[bytes]:
    one = batch_of(b"one")
    forged = [forge(one, **fields) for fields in _WRONG]
    cut = [bytes(one[:size]) for size in (0, 1, 16, 17, 60, 61, len(one) - 1)]
    return [
        *forged,
        *cut,
        bytes(one + one),
        bytes(one) + b"\0",
        forge(one + bytes(20), length=len(one) + 20 - 12),
        bomb(),
        bomb(codec=Codec.GZIP),
        bytes(HEADER.size),
        b"\xff" * HEADER.size,
    ]
