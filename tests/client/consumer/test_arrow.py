"""Record batches into Arrow's: values, nulls, headers, several partitions, memory."""

from typing import Any

import pytest

from barnabas.client.consumer.arrow import ArrowRows
from barnabas.model.errors import Corrupt
from barnabas.wire.batch import read_header
from barnabas.wire.compression import Codec
from barnabas.wire.records import Headers, Record, encode_batch

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

EVER = 2**62


def batch_of(*values: bytes | None, headers: Headers = (), **options: Any) -> bytearray:
    records = [Record(i, 1000 + i, b"key", value, headers) for i, value in enumerate(values)]
    return encode_batch(records, codec=Codec.ZSTD, **options)


def add(rows: ArrowRows, batch: bytearray, topic: str = "t", partition: int = 0) -> int:
    return rows.add(topic, partition, read_header(batch), memoryview(batch), 0, EVER)


def test_rows_of_several_partitions_share_a_batch() -> None:
    rows = ArrowRows()
    add(rows, batch_of(b"a", None))
    add(rows, batch_of(b"b", log_append_time=5), partition=1)
    add(rows, batch_of(b"c"), topic="other")
    taken = rows.take()
    taken.validate(full=True)
    assert taken.to_pydict() | {"timestamp": None} == {
        "key": [b"key"] * 4,
        "value": [b"a", None, b"b", b"c"],
        "topic": ["t", "t", "t", "other"],
        "partition": [0, 0, 1, 0],
        "offset": [0, 1, 0, 0],
        "timestamp": None,
        "timestampType": [0, 0, 1, 0],
    }
    assert taken.column("timestamp").cast("int64").to_pylist() == [
        1000_000,
        1001_000,
        5000,
        1000_000,
    ]


def test_headers_are_null_where_there_are_none() -> None:
    rows = ArrowRows(headers=True)
    add(rows, batch_of(b"with", headers=(("a", b"1"), ("b", None))))
    add(rows, batch_of(b"without"))
    taken = rows.take()
    taken.validate(full=True)
    assert taken.schema.field("headers").type.value_field.name == "element"
    assert taken.column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
    ]


def test_a_header_name_that_is_no_text_is_shown_with_replacements() -> None:
    batch = batch_of(b"v", headers=(("né", b"1"), ("fine", b"2")))
    plain = encode_batch([Record(0, 0, None, b"v", (("n\xe9", b"1"), ("fine", b"2")))])
    broken = bytearray(plain.replace("é".encode(), b"\xe9\xe9"))
    rows = ArrowRows(headers=True)
    rows.add("t", 0, read_header(broken), memoryview(broken), 0, EVER, crc=False)
    add(rows, batch)
    names = [pair["key"] for pairs in rows.take().column("headers").to_pylist() for pair in pairs]
    assert names == ["n\ufffd\ufffd", "fine", "né", "fine"]


def test_a_batch_handed_out_is_never_written_to_again() -> None:
    rows = ArrowRows()
    taken = []
    for number in range(6):
        add(rows, batch_of(b"value %d" % number))
        taken.append(rows.take())
    values = [batch.column("value").to_pylist() for batch in taken]
    assert values == [[b"value %d" % number] for number in range(6)]


def test_an_empty_batch_has_the_columns() -> None:
    taken = ArrowRows(headers=True).take()
    taken.validate(full=True)
    assert taken.num_rows == 0
    assert taken.schema.names[-1] == "headers"


def test_a_batch_with_a_wrong_checksum_is_refused() -> None:
    batch = batch_of(b"value")
    batch[-1] ^= 1
    rows = ArrowRows()
    with pytest.raises(Corrupt, match="checksum"):
        add(rows, batch)
    assert rows.rows == 0


def test_what_unfolds_to_more_than_allowed_is_refused() -> None:
    batch = batch_of(bytes(1_000_000))
    with pytest.raises(Corrupt, match="1000"):
        ArrowRows().add("t", 0, read_header(batch), memoryview(batch), 0, EVER, size_max=1000)
