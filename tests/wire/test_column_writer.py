"""Columns into records, plain and compiled alike, with the row-wise decoder as oracle."""

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire import column_writer as imported
from barnabas.wire.record_loops import Record, decode_records
from tests.plain import flavours, from_source

PLAIN: Any = from_source("barnabas.wire.column_writer")
FLAVOURS = flavours(PLAIN, imported)
both = pytest.mark.parametrize("writer", FLAVOURS)

SIZE_MAX = 2**31 - 1
STRINGS = st.none() | st.binary(max_size=80) | st.binary(min_size=120, max_size=400)
HEADERS = st.lists(st.tuples(st.text(max_size=6), STRINGS), max_size=3).map(tuple)
ROWS = st.lists(
    st.tuples(STRINGS, STRINGS, st.integers(-1, 2**45), HEADERS), min_size=1, max_size=20
)


def strings(writer: Any, values: list[bytes | None]) -> Any:
    ends = array("i", [0])
    content = b""
    valid = bytearray((len(values) + 7) // 8)
    for row, value in enumerate(values):
        content += value or b""
        ends.append(len(content))
        valid[row >> 3] |= (value is not None) << (row & 7)
    nulls = any(value is None for value in values)
    return writer.Strings(memoryview(ends), content, bytes(valid) if nulls else b"")


def columns(writer: Any, rows: list[Any]) -> Any:
    header_ends = array("i", [0])
    for row in rows:
        header_ends.append(header_ends[-1] + len(row[3]))
    pairs = [pair for row in rows for pair in row[3]]
    return writer.RowColumns(
        len(rows),
        strings(writer, [row[0] for row in rows]),
        strings(writer, [row[1] for row in rows]),
        array("q", [row[2] for row in rows]),
        memoryview(header_ends),
        strings(writer, [pair[0].encode() for pair in pairs]),
        strings(writer, [pair[1] for pair in pairs]),
    )


@both
@given(rows=ROWS, size_max=st.integers(100, 2000) | st.just(SIZE_MAX))
def test_rows_become_the_records_of_batches(writer: Any, rows: list[Any], size_max: int) -> None:
    made = columns(writer, rows)
    order = array("i", range(len(rows)))
    at = 0
    while at < len(rows):
        buffer, taken, base, latest = made.encode(order, at, len(rows), 61, size_max)
        part = rows[at : at + taken]
        assert base == part[0][2]
        assert latest == max(row[2] for row in part)
        assert taken == 1 or len(buffer) <= size_max
        assert buffer[:61] == bytes(61)
        found = decode_records(bytes(buffer[61:]), taken, 0, taken - 1, base, latest, False)
        assert found == [Record(i, row[2], row[0], row[1], row[3]) for i, row in enumerate(part)]
        at += taken


@both
def test_columns_that_are_not_there_are_null(writer: Any) -> None:
    made = writer.RowColumns(2, None, strings(writer, [b"a", None]), array("q", [5, 6]))
    buffer, taken, base, latest = made.encode(array("i", [1, 0]), 0, 2, 0, SIZE_MAX)
    assert (taken, base, latest) == (2, 6, 6)
    assert decode_records(bytes(buffer), 2, 0, 1, base, latest, False) == [
        Record(0, 6, None, None),
        Record(1, 5, None, b"a"),
    ]


@both
def test_keys_go_where_java_sends_them(writer: Any) -> None:
    """As Kafka's own partitioner does, with 10 partitions."""
    keys = [b"", b"a", b"ab", b"abc", b"abcd", b"key-1", b"\xff\xfe\xfd\xfc\xfb", None]
    chosen = array("i", [-1] * len(keys))
    zeros = array("i", [0] * len(keys))
    bad = writer.choose(
        strings(writer, keys), len(keys), zeros, array("i", [10]), chosen, array("i", [3])
    )
    assert bad == -1
    from barnabas.client.producer.accumulator import murmur2

    expected = [3 if key is None else (murmur2(key) & 0x7FFF_FFFF) % 10 for key in keys]
    assert list(chosen) == expected


@both
def test_a_partition_that_does_not_exist_is_found(writer: Any) -> None:
    chosen = array("i", [1, -1, 2])
    assert (
        writer.choose(
            None, 3, array("i", [0, 1, 0]), array("i", [2, 5]), chosen, array("i", [0, 4])
        )
        == 2
    )
    assert list(chosen[:2]) == [1, 4]


@both
@given(st.lists(st.integers(0, 6), max_size=40))
def test_rows_are_arranged_by_bucket_in_their_order(writer: Any, buckets: list[int]) -> None:
    ends = array("i", [0] * 8)
    order = writer.arrange(array("i", buckets), len(buckets), ends)
    assert list(order) == sorted(range(len(buckets)), key=lambda row: buckets[row])
    assert list(ends[:7]) == [sum(b <= bucket for b in buckets) for bucket in range(7)]
