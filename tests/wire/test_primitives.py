"""Varints and uuids by themselves."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import readers

from barnabas.wire.primitives import Malformed, read_uvarint, uuid_from_bytes, uvarint


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_unsigned_varints_read_back_where_they_stand(value: int, before: bytes) -> None:
    data = before + uvarint(value)
    assert read_uvarint(data + b"rest", len(before)) == (value, len(data))
    assert readers.read_unsigned_varint(uvarint(value), 0)[0] == value


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("8080808080", "longer than 5 bytes"),
        ("ffffffff1f", "overflows"),
        ("", "cut short"),
        ("80", "cut short"),
    ],
)
def test_a_varint_that_does_not_fit_is_malformed(data: str, complaint: str) -> None:
    with pytest.raises(Malformed, match=complaint):
        read_uvarint(bytes.fromhex(data), 0)


@given(st.uuids())
def test_uuids_are_ordinary_ones(uuid: UUID) -> None:
    made = uuid_from_bytes(uuid.bytes)
    assert made == uuid
    assert (repr(made), hash(made), made.is_safe) == (repr(uuid), hash(uuid), uuid.is_safe)
