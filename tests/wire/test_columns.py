"""Records into columns, plain and compiled alike, with the row-wise decoder as oracle."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.errors import Corrupt
from barnabas.wire import columns as imported
from barnabas.wire.batch import HEADER_SIZE, LOG_APPEND_TIME, read_header
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, body_of, decode_batch, encode_batch
from tests.plain import flavours, from_source

PLAIN: Any = from_source("barnabas.wire.columns")
FLAVOURS = flavours(PLAIN, imported)
both = pytest.mark.parametrize("columns", FLAVOURS)

EVER = 2**62
HEADERS = st.lists(
    st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=70)), max_size=4
).map(tuple)
FIELDS = st.tuples(
    st.integers(-1, 2**45) | st.integers(-(2**61), 2**61),
    st.none() | st.binary(max_size=100),
    st.none() | st.binary(max_size=300),
    HEADERS,
    st.integers(1, 5) | st.integers(1, 2**20),
)


def batch_of(fields: list[Any], base: int = 0, **options: Any) -> bytearray:
    records = []
    offset = base - 1
    for timestamp, key, value, headers, step in fields:
        offset += step
        records.append(Record(offset, timestamp, key, value, headers))
    return encode_batch(records, base_offset=base, **options)


def append(columns: Any, batch: bytearray, start: int = 0, stop: int = EVER) -> int:
    header = read_header(batch)
    added: int = columns.append(
        body_of(batch, header),
        header.record_count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        bool(header.attributes & LOG_APPEND_TIME),
        start,
        stop,
    )
    return added


def value_at(column: Any, row: int) -> bytes | None:
    if not column.valid[row >> 3] >> (row & 7) & 1:
        return None
    return bytes(column.content[column.ends[row] : column.ends[row + 1]])


def rows_of(columns: Any, headers: bool = False) -> list[Record]:
    rows = []
    for row in range(columns.rows):
        found: Any = ()
        if headers:
            first, last = columns.header_ends[row], columns.header_ends[row + 1]
            found = tuple(
                (
                    (value_at(columns.header_keys, i) or b"").decode(),
                    value_at(columns.header_values, i),
                )
                for i in range(first, last)
            )
            assert bool(columns.header_valid[row >> 3] >> (row & 7) & 1) == bool(found)
        key, value = value_at(columns.keys, row), value_at(columns.values, row)
        rows.append(Record(columns.offsets[row], columns.timestamps[row], key, value, found))
    return rows


@both
@given(
    codec=st.sampled_from(Codec),
    base=st.integers(0, 2**60),
    batches=st.lists(st.lists(FIELDS, max_size=12), max_size=4),
    appended=st.booleans(),
)
def test_columns_hold_what_the_records_hold(
    columns: Any, codec: Codec, base: int, batches: list[list[Any]], appended: bool
) -> None:
    made = columns.Columns(True)
    expected = []
    for fields in batches:
        time = 77 if appended else None
        batch = batch_of(fields, base, codec=codec, log_append_time=time)
        expected += decode_batch(batch)
        assert append(made, batch) == len(fields)
    assert rows_of(made, headers=True) == expected
    assert made.keys.nulls == sum(record.key is None for record in expected)
    assert made.values.nulls == sum(record.value is None for record in expected)


@both
def test_only_the_records_between_start_and_stop_become_rows(columns: Any) -> None:
    batch = batch_of([(i, b"k", b"v%d" % i, (), 1) for i in range(10)], 100)
    made = columns.Columns()
    assert append(made, batch, 103, 107) == 4
    assert list(made.offsets[: made.rows]) == [103, 104, 105, 106]
    assert append(made, batch, 110) == 0
    assert append(made, batch, 0, 100) == 0
    assert made.rows == 4


@both
def test_times_are_scaled_and_stay_within_64_bits(columns: Any) -> None:
    made = columns.Columns(False, 1000)
    append(made, batch_of([(1_700_000_000_123, None, b"", (), 1), (2**61, None, b"", (), 1)]))
    append(made, batch_of([(-(2**61), None, b"", (), 1), (-1, None, b"", (), 1)]))
    limit = (2**63 - 1) // 1000 * 1000
    assert list(made.timestamps[:4]) == [1_700_000_000_123_000, limit, -limit, -1000]


@both
@given(
    fields=st.lists(FIELDS, min_size=1, max_size=5),
    at=st.integers(0, 10_000),
    change=st.integers(1, 255),
    headers=st.booleans(),
)
def test_a_changed_byte_is_refused_or_read_as_the_other_decoder_reads_it(
    columns: Any, fields: list[Any], at: int, change: int, headers: bool
) -> None:
    batch = batch_of(fields)
    header = read_header(batch)
    batch[HEADER_SIZE + at % (len(batch) - HEADER_SIZE)] ^= change
    made = columns.Columns(headers)
    append(made, batch_of([(5, b"before", None, (("h", None),), 1)]))
    try:
        expected = decode_batch(batch, crc=False)
    except Corrupt as problem:
        if not headers or "header key" in str(problem):
            return  # headers are looked at only if wanted, and their names not here
        with pytest.raises(Corrupt):
            append(made, batch)
        assert made.rows == 1
    else:
        assert append(made, batch) == header.record_count
        assert rows_of(made, headers)[1:] == (
            expected
            if headers
            else [Record(r.offset, r.timestamp, r.key, r.value) for r in expected]
        )


@both
def test_rows_before_a_corrupt_batch_stay_and_later_ones_join_them(columns: Any) -> None:
    good = batch_of([(1, None, b"good", (("a", b"b"),), 1)])
    bad = batch_of([(1, b"key", None, (("c", None),), 1), (1, b"key", b"x", (), 1)])
    bad[-1] = 9  # the count of headers of the last record
    made = columns.Columns(True)
    append(made, good)
    with pytest.raises(Corrupt, match="header count"):
        append(made, bad)
    append(made, good)
    assert rows_of(made, headers=True) == decode_batch(good) * 2
    assert made.values.nulls == 0
    assert made.keys.nulls == 2


@both
def test_memory_is_used_again_only_when_nobody_looks_at_it(columns: Any) -> None:
    made = columns.Columns()
    append(made, batch_of([(1, b"key", b"value", (), 1)]))
    with memoryview(made.values.content):
        assert not made.clear()
        assert made.rows == 1
    assert made.clear()
    assert made.rows == 0
    append(made, batch_of([(2, None, None, (), 1)]))
    assert rows_of(made) == [Record(0, 2, None, None)]
