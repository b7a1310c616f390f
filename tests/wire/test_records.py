"""Records into batches and back, plain and compiled alike."""

import pickle
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.errors import Corrupt
from barnabas.wire.batch import HEADER_SIZE, NO_TIMESTAMP, check_crc, read_header
from barnabas.wire.compression import Codec
from tests.wire.flavours import FLAVOUR_MODULES, FLAVOURS

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

both = pytest.mark.parametrize("records", FLAVOURS)

HEADERS = st.lists(
    st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=70)), max_size=4
).map(tuple)
# Half the range, so that no two are further apart than 64 bits.
TIMESTAMPS = st.integers(-1, 2**45) | st.integers(-(2**62), 2**62)
FIELDS = st.tuples(
    TIMESTAMPS,
    st.none() | st.binary(max_size=100),
    st.none() | st.binary(max_size=300),
    HEADERS,
    st.integers(1, 5) | st.integers(1, 2**20),
)


@both
@given(
    codec=st.sampled_from(Codec),
    base_offset=st.integers(0, 2**62),
    fields=st.lists(FIELDS, max_size=30),
)
def test_records_come_back_as_they_went_in(
    records: Any, codec: Codec, base_offset: int, fields: list[Any]
) -> None:
    given_records = []
    offset = base_offset - 1
    for timestamp, key, value, headers, step in fields:
        offset += step
        given_records.append(records.Record(offset, timestamp, key, value, headers))

    batch = records.encode_batch(given_records, codec=codec, base_offset=base_offset)

    assert records.decode_batch(batch) == given_records
    header = read_header(batch)
    assert header.attributes == codec
    assert header.record_count == len(fields)
    assert header.last_offset == (offset if fields else base_offset)
    assert header.base_timestamp == (fields[0][0] if fields else NO_TIMESTAMP)
    assert header.max_timestamp == max((f[0] for f in fields), default=NO_TIMESTAMP)
    assert records.count_records(records.records_of(batch, header)) == len(fields)
    # Decoded keys and values must not hold on to the buffer that they came from.
    assert all(type(r.value) in (bytes, type(None)) for r in records.decode_batch(batch))


def test_both_flavours_write_the_same_bytes() -> None:
    fields: list[tuple[Any, ...]] = [
        (5, -7, None, None, ()),
        (6, INT64_MAX - 7, b"", b"", (("", b""), ("schlüssel", None))),
        (6 + INT32_MAX - 1, 0, b"k" * 100, b"v" * 10_000, ()),
    ]
    batches = [
        module.encode_batch([module.Record(*each) for each in fields], base_offset=5)
        for module in FLAVOUR_MODULES
    ]
    assert batches[0] == batches[1]


@both
def test_the_header_carries_what_the_producer_says(records: Any) -> None:
    batch = records.encode_batch(
        [records.Record(40, 9, b"k", b"v"), records.Record(42, 3, b"k", b"v")],
        base_offset=40,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=99,
        transactional=True,
        control=True,
        leader_epoch=12,
        last_offset_delta=6,
    )
    header = read_header(batch)
    check_crc(batch, header)
    assert header == (
        *(40, len(batch) - 12, 12, 2, header.crc, 0b11_0000, 6, 9, 9, 2**40, 7, 99),
        2,
    )


@both
def test_log_append_time_is_the_time_of_every_record(records: Any) -> None:
    batch = records.encode_batch(
        [records.Record(i, 100 - i, None, b"v") for i in range(3)], log_append_time=5_000
    )
    header = read_header(batch)
    assert header.attributes == 0b1000
    assert (header.base_timestamp, header.max_timestamp) == (100, 5_000)
    assert [r.timestamp for r in records.decode_batch(batch)] == [5_000] * 3
    assert records.find_by_time(batch, 5_000) == (0, 5_000)
    assert records.find_by_time(batch, 5_001) is None


@both
@pytest.mark.parametrize("codec", Codec)
def test_a_batch_without_records_is_a_batch(records: Any, codec: Codec) -> None:
    """Compaction leaves such a batch where a producer's last sequence must be kept."""
    batch = records.encode_batch([], codec=codec, base_offset=8, last_offset_delta=3)
    assert records.decode_batch(batch) == []
    assert read_header(batch).last_offset == 11
    assert records.find_by_time(batch, 0) is None


@both
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_batches_are_read_from_any_buffer_and_may_be_followed_by_more(
    records: Any, kind: Any
) -> None:
    given_records = [records.Record(0, 1, b"k", b"v", (("h", b"x"),))]
    batch = records.encode_batch(given_records) + b"more"
    decoded = records.decode_batch(kind(batch))
    assert decoded == given_records
    assert type(decoded[0].key) is bytes
    assert type(decoded[0].headers[0][1]) is bytes


@both
def test_a_record_can_be_compared_hashed_shown_and_pickled(records: Any) -> None:
    record = records.Record(3, 4, b"k", None, (("h", None),))
    assert record == records.Record(
        offset=3, timestamp=4, key=b"k", value=None, headers=(("h", None),)
    )
    assert record != records.Record(3, 4, b"k", b"", (("h", None),))
    assert record != (3, 4, b"k", None, (("h", None),))
    assert len({record, records.Record(3, 4, b"k", None, (("h", None),))}) == 1
    assert repr(record) == (
        "Record(offset=3, timestamp=4, key=b'k', value=None, headers=(('h', None),))"
    )
    copy = record.__reduce__()
    assert copy[0](*copy[1]) == record


def test_the_imported_flavour_pickles() -> None:
    from barnabas.wire.records import Record

    record = Record(3, 4, b"k", None, (("h", None),))
    assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301


@both
def test_offsets_that_do_not_rise_are_not_encoded(records: Any) -> None:
    for offsets in ((1, 1), (2, 1), (-1,)):
        with pytest.raises(ValueError, match="after offset"):
            records.encode_batch([records.Record(i, 0, None, None) for i in offsets])
    with pytest.raises(ValueError, match="does not fit"):
        records.encode_batch([records.Record(2**31, 0, None, None)])
    with pytest.raises(ValueError, match="last offset delta 0"):
        records.encode_batch([records.Record(1, 0, None, None)], last_offset_delta=0)


@both
def test_timestamps_too_far_apart_are_not_encoded(records: Any) -> None:
    for first, second in ((-2, INT64_MAX), (1, -INT64_MAX - 1)):
        with pytest.raises(ValueError, match="too far"):
            records.encode_batch(
                [records.Record(0, first, None, None), records.Record(1, second, None, None)]
            )


# --- the builder --------------------------------------------------------------------------------


@both
def test_a_builder_takes_records_until_the_batch_is_full(records: Any) -> None:
    builder = records.BatchBuilder(200)
    assert (builder.size, builder.count, builder.max_timestamp) == (HEADER_SIZE, 0, NO_TIMESTAMP)
    taken = 0
    while builder.append(b"key", b"v" * 20, (), 1_000 - taken):
        taken += 1
    assert taken == builder.count == 4
    size = builder.size
    assert size <= 200 < size + 31
    assert (builder.base_timestamp, builder.max_timestamp) == (1_000, 1_000)
    assert builder.append(b"", b"", (), 2_000)  # a smaller one still fits
    batch = builder.build(base_offset=10)
    assert len(batch) == size + 8
    assert [(r.offset, r.timestamp, r.key) for r in records.decode_batch(batch)] == [
        (10, 1_000, b"key"),
        (11, 999, b"key"),
        (12, 998, b"key"),
        (13, 997, b"key"),
        (14, 2_000, b""),
    ]
    assert read_header(batch).max_timestamp == 2_000


@both
def test_an_empty_builder_takes_a_record_of_any_size(records: Any) -> None:
    builder = records.BatchBuilder(100)
    assert builder.append(None, bytes(1_000), (), 0)
    assert not builder.append(None, b"", (), 0)
    assert len(records.decode_batch(builder.build())) == 1


@both
def test_what_is_not_bytes_is_refused_and_leaves_no_trace(records: Any) -> None:
    builder = records.BatchBuilder()
    builder.append(b"a", b"a", (), 0)
    wrong: list[tuple[Any, Any, Any]] = [
        ("text", b"", ()),
        (b"", "text", ()),
        (b"", 17, ()),
        (b"", memoryview(struct.pack("2i", 1, 2)).cast("i"), ()),
        (b"", b"", (("h", "text"),)),
        (b"", b"", ((b"h", b""),)),
        (b"", b"", (("h",),)),
        (b"", b"", 5),
    ]
    for key, value, headers in wrong:
        with pytest.raises((TypeError, AttributeError, ValueError)):
            builder.append(key, value, headers, 0)
    builder.append(b"b", b"b", [("list", b"")], 0)
    assert [(r.offset, r.key) for r in records.decode_batch(builder.build())] == [
        (0, b"a"),
        (1, b"b"),
    ]


@both
@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1, 2**90])
def test_a_timestamp_over_64_bits_is_refused(records: Any, timestamp: int) -> None:
    builder = records.BatchBuilder()
    with pytest.raises(OverflowError):
        builder.append(b"", b"", (), timestamp)
    assert builder.count == 0


@both
def test_a_first_record_that_is_refused_leaves_its_time_behind_it(records: Any) -> None:
    builder = records.BatchBuilder()
    with pytest.raises(TypeError):
        builder.append(b"", "text", (), 5_000)
    builder.append(b"", b"", (), 7)
    assert (builder.base_timestamp, builder.max_timestamp) == (7, 7)


@both
def test_a_builder_builds_once(records: Any) -> None:
    builder = records.BatchBuilder()
    builder.append(None, b"v", (), 0)
    builder.build()
    with pytest.raises(ValueError, match="has been built"):
        builder.append(None, b"v", (), 0)
    with pytest.raises(ValueError, match="has been built"):
        builder.build()


# --- several batches, and time ------------------------------------------------------------------


@both
def test_whole_batches_are_listed_and_a_cut_tail_is_left_out(records: Any) -> None:
    batches = [
        records.encode_batch(
            [records.Record(i, i, None, bytes(i * 10))], base_offset=i, codec=Codec.ZSTD
        )
        for i in range(3)
    ]
    joined = b"".join(batches)
    for size in range(len(joined) + 1):
        found = list(records.iter_batches(memoryview(joined)[:size]))
        whole = sum(size >= sum(map(len, batches[: i + 1])) for i in range(3))
        assert [bytes(view) for _, view in found] == batches[:whole]
        assert [header.base_offset for header, _ in found] == list(range(whole))


@both
def test_listing_batches_stops_at_a_length_that_is_none(records: Any) -> None:
    batch = records.encode_batch([records.Record(0, 0, None, None)])
    for length in (-1, 0, 48, -(2**31)):
        wrong = bytearray(batch)
        struct.pack_into(">i", wrong, 8, length)
        with pytest.raises(Corrupt, match="length"):
            list(records.iter_batches(batch + wrong))


@both
@pytest.mark.parametrize("codec", Codec)
def test_a_time_is_found_to_the_record(records: Any, codec: Codec) -> None:
    times = [50, 10, 70, 70, 60, 90]
    batch = records.encode_batch(
        [records.Record(100 + 2 * i, time, b"k", b"v") for i, time in enumerate(times)],
        base_offset=99,
        codec=codec,
    )
    assert records.find_by_time(batch, -5) == (100, 50)
    assert records.find_by_time(batch, 50) == (100, 50)
    assert records.find_by_time(batch, 51) == (104, 70)
    assert records.find_by_time(batch, 71) == (110, 90)
    assert records.find_by_time(batch, 91) is None
