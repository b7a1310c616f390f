"""Varints, strings and uuids by themselves."""

from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import readers

from barnabas.model.ports import Buffer
from barnabas.wire.primitives import (
    Malformed,
    compact_string,
    read_compact_string,
    read_string,
    read_uvarint,
    read_uvarlong,
    read_varint,
    read_varlong,
    uuid_from_bytes,
    uvarint,
    varint,
    varlong,
)

Reader = Callable[[Buffer, int], tuple[int, int]]


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_unsigned_varints_read_back_where_they_stand(value: int, before: bytes) -> None:
    data = before + uvarint(value)
    assert read_uvarint(data + b"rest", len(before)) == (value, len(data))
    assert read_uvarlong(data + b"rest", len(before)) == (value, len(data))
    assert readers.read_unsigned_varint(uvarint(value), 0)[0] == value


@given(st.integers(-(2**31), 2**31 - 1))
def test_signed_varints_read_back(value: int) -> None:
    assert read_varint(varint(value), 0) == (value, len(varint(value)))


@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_varlongs_read_back(value: int) -> None:
    assert read_varlong(varlong(value), 0) == (value, len(varlong(value)))


@pytest.mark.parametrize(
    ("value", "data"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001")]
)
def test_signed_varints_zigzag(value: int, data: str) -> None:
    assert varint(value) == varlong(value) == bytes.fromhex(data)


@pytest.mark.parametrize(
    ("read", "data", "complaint"),
    [
        (read_uvarint, "8080808080", "longer than 5 bytes"),
        (read_uvarint, "ffffffff1f", "overflows"),
        (read_uvarint, "", "cut short"),
        (read_varint, "80", "cut short"),
        (read_uvarlong, "80" * 10, "longer than 10 bytes"),
        (read_varlong, "ff" * 9 + "02", "overflows"),
    ],
)
def test_a_varint_that_does_not_fit_is_malformed(read: Reader, data: str, complaint: str) -> None:
    with pytest.raises(Malformed, match=complaint):
        read(bytes.fromhex(data), 0)


@given(st.none() | st.text(max_size=300))
def test_compact_strings_read_back(text: str | None) -> None:
    data = compact_string(text)
    assert read_compact_string(data, 0) == (text, len(data))


@pytest.mark.parametrize("data", ["", "00", "0003 6161", "fffe", "0001 ff"])
def test_a_bad_string_is_malformed(data: str) -> None:
    with pytest.raises(Malformed, match="string"):
        read_string(bytes.fromhex(data), 0)


def test_a_classic_string_may_be_null() -> None:
    assert read_string(b"\xff\xff", 0) == (None, 2)
    assert read_string(b"\0\2ab", 0) == ("ab", 4)


@given(st.uuids())
def test_uuids_are_ordinary_ones(uuid: UUID) -> None:
    made = uuid_from_bytes(uuid.bytes)
    assert made == uuid
    assert (repr(made), hash(made), made.is_safe) == (repr(uuid), hash(uuid), uuid.is_safe)
