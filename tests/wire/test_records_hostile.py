"""Batches that lie, are cut or were changed on the way: Corrupt, and nothing else."""

import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.model.errors import Corrupt
from barnabas.wire.batch import HEADER_SIZE, BatchHeader, read_header, write_header
from barnabas.wire.compression import Codec
from tests.share import examples
from tests.wire.flavours import FLAVOUR_MODULES, FLAVOURS

both = pytest.mark.parametrize("records", FLAVOURS)

Fields = dict[str, bytes]


def zigzag(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes((*out, rest))


def record(
    *,
    length: int | None = None,
    time: bytes = b"\0",
    offset: bytes = b"\0",
    key: bytes = zigzag(-1),
    value: bytes = zigzag(-1),
    headers: bytes = b"\0",
) -> bytes:
    body = b"\0" + time + offset + key + value + headers
    return zigzag(len(body) if length is None else length) + body


def batch_of(body: bytes, count: int = 1, **fields: int) -> bytearray:
    """A batch with a true checksum around a body that may be anything."""
    batch = bytearray(HEADER_SIZE) + body
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=max(count - 1, 0),
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    write_header(batch, header._replace(**fields))
    return batch


def typical(records: Any, codec: Codec) -> bytearray:
    given_records = [
        records.Record(
            i,
            1_700_000_000_000 + i * 50,
            None if i == 1 else b"key-%d" % i,
            None if i == 2 else b"value " * (i * 5),
            (("trace", b"abc"), ("none", None)) if i % 2 else (),
        )
        for i in range(5)
    ]
    batch: bytearray = records.encode_batch(given_records, codec=codec)
    return batch


@both
@pytest.mark.parametrize("codec", Codec)
def test_every_cut_of_a_batch_is_corrupt(records: Any, codec: Codec) -> None:
    batch = typical(records, codec)
    for size in range(len(batch)):
        with pytest.raises(Corrupt):
            records.decode_batch(batch[:size])
        shortened = batch_of(bytes(batch[HEADER_SIZE:size]), 5, attributes=codec)
        with pytest.raises(Corrupt):
            records.decode_batch(shortened)


@both
@pytest.mark.parametrize("codec", Codec)
def test_every_flipped_bit_is_corrupt_or_where_a_broker_writes(records: Any, codec: Codec) -> None:
    batch = typical(records, codec)
    before = records.decode_batch(batch)
    for position in range(len(batch)):
        for bit in range(8):
            changed = bytearray(batch)
            changed[position] ^= 1 << bit
            if 12 <= position < 16:  # the leader epoch
                assert records.decode_batch(changed) == before
            elif position < 8 and not (position == 0 and bit == 7):  # the base offset
                moved = records.decode_batch(changed)
                assert [r.value for r in moved] == [r.value for r in before]
            else:
                with pytest.raises(Corrupt):
                    records.decode_batch(changed)


@both
@pytest.mark.parametrize("codec", Codec)
def test_with_its_checksum_mended_a_changed_byte_gives_records_or_corrupt(
    records: Any, codec: Codec
) -> None:
    batch = typical(records, codec)
    for position in range(21, len(batch)):
        for change in (0x01, 0x80, 0xFF, batch[position]):
            changed = bytearray(batch)
            changed[position] ^= change
            try:
                decoded = records.decode_batch(changed, crc=False, size_max=100_000)
                assert len(decoded) == read_header(changed).record_count
                records.find_by_time(changed, 1_700_000_000_100, size_max=100_000)
            except Corrupt:
                pass


@both
@settings(max_examples=examples(500))
@given(
    body=st.binary(max_size=60) | st.lists(st.binary(max_size=3), max_size=20).map(b"".join),
    count=st.integers(0, 4),
)
def test_random_records_give_records_or_corrupt(records: Any, body: bytes, count: int) -> None:
    framed = b"".join(zigzag(len(body) + 1) + b"\0" + body for _ in range(count))
    for each in (body, framed):
        batch = batch_of(each, count, last_offset_delta=1_000)
        try:
            assert len(records.decode_batch(batch)) == count
            assert records.count_records(each) == count
        except Corrupt:
            pass
        try:
            records.find_by_time(batch, 0)
            records.count_records(each)
        except Corrupt:
            pass


def test_both_flavours_refuse_the_same_records() -> None:
    """Cut, overlong, negative: said in the same words."""
    for name, body, _ in LIES:
        said = []
        for module in FLAVOUR_MODULES:
            with pytest.raises(Corrupt) as caught:
                module.decode_batch(batch_of(body))
            said.append(str(caught.value))
        assert said[0] == said[1], name


LIES: list[tuple[str, bytes, str]] = [
    ("record longer than its fields", record(length=7) + b"\0", "record ends at byte 8"),
    ("record shorter than its fields", record(key=b"\6abc", length=8), "header count cut short"),
    ("record without fields", zigzag(0) + bytes(6), "record of 0 bytes"),
    ("record of negative length", zigzag(-1) + bytes(6), "record of -1 bytes"),
    ("record longer than the batch", record(length=100), "record of 100 bytes"),
    ("record length over 32 bits", b"\xff\xff\xff\xff\x7f" + record(), "record length"),
    ("record length without end", b"\xff" * 20, "record length before byte 10 .* over 64 bits"),
    ("record length cut", b"\xff" * 7, "record length cut short"),
    ("time delta over 64 bits", record(time=b"\xff" * 9 + b"\x02"), "timestamp delta"),
    ("time delta without end", record(time=b"\x80" * 12), "timestamp delta"),
    ("offset delta over 32 bits", record(offset=zigzag(2**31)), "offset delta"),
    ("offset delta negative", record(offset=zigzag(-1)), "offset delta -1"),
    ("offset delta past the last", record(offset=zigzag(1)), "offset delta 1"),
    ("key length negative", record(key=zigzag(-2)), "key length -2"),
    ("key longer than the record", record(key=zigzag(3)), "key length 3"),
    ("key as long as can be", record(key=zigzag(2**31 - 1)), "key length 2147483647"),
    ("value length negative", record(value=zigzag(-(2**31))), "value length -2147483648"),
    ("value longer than the record", record(value=zigzag(2)), "value length 2"),
    ("header count negative", record(headers=zigzag(-1)), "header count -1"),
    ("header count too large", record(headers=zigzag(1_000_000)), "header count 1000000"),
    ("header count over 32 bits", record(headers=zigzag(2**31)), "header count"),
    ("header key null", record(headers=b"\2\1\0\0"), "without a key"),
    ("header key cut", record(headers=b"\2\x0aab"), "header key length 5"),
    ("header key not text", record(headers=b"\2\2\xff\1"), "header key at byte 8 .*utf-8"),
    ("header value length negative", record(headers=b"\2\2a\3"), "header value length -2"),
    ("header value cut", record(headers=b"\2\2a\2"), "header value length 1"),
]


@both
@pytest.mark.parametrize(("body", "said"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_a_record_that_lies_is_corrupt_and_the_lie_is_named(
    records: Any, body: bytes, said: str
) -> None:
    with pytest.raises(Corrupt, match=said):
        records.decode_batch(batch_of(body))


@both
def test_the_shortest_record_is_read(records: Any) -> None:
    assert records.decode_batch(batch_of(record())) == [records.Record(0, 0, None, None)]


@both
@pytest.mark.parametrize("count", [-1, -(2**31), 0, 1, 3, 2**31 - 1])
def test_a_count_that_does_not_match_is_corrupt(records: Any, count: int) -> None:
    body = record() + record(offset=zigzag(1))
    with pytest.raises(Corrupt):
        records.decode_batch(batch_of(body, count, last_offset_delta=2**31 - 1))


@both
def test_a_count_beyond_the_last_offset_delta_is_corrupt(records: Any) -> None:
    body = record() + record(offset=zigzag(1))
    with pytest.raises(Corrupt, match="last offset delta is 0"):
        records.decode_batch(batch_of(body, 2, last_offset_delta=0))


@both
def test_offsets_that_do_not_rise_are_corrupt(records: Any) -> None:
    with pytest.raises(Corrupt, match=r"offset delta 0 .* after 0"):
        records.decode_batch(batch_of(record() + record(), 2))
    with pytest.raises(Corrupt, match=r"offset delta 0 .* after 0"):
        records.find_by_time(batch_of(record() + record(), 2, max_timestamp=9), 5)


@both
@pytest.mark.parametrize("base", [-1, -(2**63), 2**63 - 1])
def test_base_offsets_out_of_range_are_corrupt(records: Any, base: int) -> None:
    with pytest.raises(Corrupt, match="base offset"):
        records.decode_batch(batch_of(record(), base_offset=base))


@both
def test_timestamps_over_64_bits_are_corrupt(records: Any) -> None:
    low, high = -(2**63), 2**63 - 1
    for base, delta, good in (
        (high, 0, True),
        (high, 1, False),
        (high - 5, 5, True),
        (low, -1, False),
        (low, high, True),
        (0, low, True),
        (-1, low, False),
    ):
        batch = batch_of(record(time=zigzag(delta)), base_timestamp=base)
        if good:
            assert records.decode_batch(batch)[0].timestamp == base + delta
        else:
            with pytest.raises(Corrupt, match="over 64 bits"):
                records.decode_batch(batch)


@both
@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_corrupt(records: Any, codec: int) -> None:
    with pytest.raises(Corrupt, match=f"codec {codec}"):
        records.decode_batch(batch_of(record(), attributes=codec))


@both
@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_unfolds_to_more_than_allowed_is_corrupt(records: Any, codec: Codec) -> None:
    batch = records.encode_batch([records.Record(0, 0, None, bytes(100_000))], codec=codec)
    assert len(records.decode_batch(batch, size_max=101_000)) == 1
    with pytest.raises(Corrupt, match=codec.text):
        records.decode_batch(batch, size_max=99_000)
    with pytest.raises(Corrupt, match=codec.text):
        records.find_by_time(batch, 0, size_max=99_000)


@both
def test_a_million_headers_take_no_more_than_their_bytes_allow(records: Any) -> None:
    """Stated, they are refused at once; sent, they are read."""
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt, match="header count 1000000"):
            records.decode_batch(batch_of(record(headers=zigzag(1_000_000) + bytes(1_000))))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    decoded = records.decode_batch(batch_of(record(headers=zigzag(100_000) + b"\0\1" * 100_000)))
    assert decoded[0].headers == (("", None),) * 100_000


@both
@pytest.mark.parametrize("position", [0, 5, 11, 17, 21, 27, 57])
def test_headers_alone_are_not_batches(records: Any, position: int) -> None:
    batch = bytearray(struct.pack(">61x"))
    batch[position] = 0xFF
    for use in (records.decode_batch, lambda b: records.find_by_time(b, 0)):
        with pytest.raises(Corrupt):
            use(batch)
