"""Our batches read by aiokafka and kafka-python, and theirs read by us."""

import warnings
from importlib import import_module
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder

from barnabas.wire.batch import check_crc, read_header
from barnabas.wire.compression import Codec
from tests.wire.flavours import FLAVOURS

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    kafka_python = import_module("kafka.record.default_records")

both = pytest.mark.parametrize("records", FLAVOURS)
# kafka-python asks for a package per codec; gzip is Python's own.
KAFKA_PYTHON_CODECS = [Codec.NONE, Codec.GZIP]

TIME = 1_700_000_000_000
ROWS: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]] = [
    (TIME, b"key", b"value", []),
    (TIME + 5, None, b"no key", []),
    (TIME - 100_000, b"no value", None, []),
    (TIME, b"", b"", [("empty", b""), ("", b"x")]),
    (TIME + 10**9, b"k" * 200, b"v" * 100_000, [("schlüssel", b"\x00\xff"), ("twice", b"1")]),
    *((TIME + i, b"key-%d" % i, b"value %d " % i * 10, [("i", b"%d" % i)]) for i in range(200)),
]
PRODUCER = {"producer_id": 2**33, "producer_epoch": 4, "base_sequence": 77}


def ours(records: Any, codec: Codec) -> bytes:
    given = [records.Record(50 + i, r[0], r[1], r[2], tuple(r[3])) for i, r in enumerate(ROWS)]
    batch = records.encode_batch(given, codec=codec, base_offset=50, transactional=True, **PRODUCER)
    return bytes(batch)


def check_theirs(theirs: Any) -> None:
    assert theirs.validate_crc()
    assert theirs.is_transactional
    assert theirs.producer_id == 2**33
    assert theirs.base_sequence == 77
    assert theirs.max_timestamp == TIME + 10**9
    rows = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in theirs]
    assert rows == [(50 + i, *row) for i, row in enumerate(ROWS)]


def check_ours(records: Any, batch: bytes, codec: Codec) -> None:
    header = read_header(batch)
    check_crc(batch, header)
    assert header.attributes & 7 == codec
    assert header.record_count == len(ROWS)
    assert (header.producer_id, header.base_sequence) == (2**33, 77)
    assert records.decode_batch(batch) == [
        records.Record(i, row[0], row[1], row[2], tuple(row[3])) for i, row in enumerate(ROWS)
    ]


@both
@pytest.mark.parametrize("codec", Codec)
def test_aiokafka_reads_what_we_write(records: Any, codec: Codec) -> None:
    check_theirs(AioBatch(ours(records, codec)))


@both
@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
def test_kafka_python_reads_what_we_write(records: Any, codec: Codec) -> None:
    check_theirs(kafka_python.DefaultRecordBatch(ours(records, codec)))


@both
@pytest.mark.parametrize("codec", Codec)
def test_we_read_what_aiokafka_writes(records: Any, codec: Codec) -> None:
    builder = AioBuilder(
        magic=2, compression_type=codec, is_transactional=1, batch_size=10**6, **PRODUCER
    )
    for i, (timestamp, key, value, headers) in enumerate(ROWS):
        assert builder.append(i, timestamp=timestamp, key=key, value=value, headers=headers)
    check_ours(records, bytes(builder.build()), codec)


@both
@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
def test_we_read_what_kafka_python_writes(records: Any, codec: Codec) -> None:
    builder = kafka_python.DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=True, batch_size=10**6, **PRODUCER
    )
    for i, (timestamp, key, value, headers) in enumerate(ROWS):
        assert builder.append(i, timestamp, key, value, headers)
    check_ours(records, bytes(builder.build()), codec)


@both
def test_uncompressed_we_write_the_same_bytes_as_aiokafka(records: Any) -> None:
    builder = AioBuilder(
        magic=2, compression_type=0, is_transactional=1, batch_size=10**6, **PRODUCER
    )
    for i, (timestamp, key, value, headers) in enumerate(ROWS):
        builder.append(i, timestamp=timestamp, key=key, value=value, headers=headers)
    theirs = bytearray(builder.build())
    theirs[:8] = (50).to_bytes(8)
    theirs[12:16] = b"\xff" * 4  # the leader epoch, which brokers write
    assert ours(records, Codec.NONE) == theirs
