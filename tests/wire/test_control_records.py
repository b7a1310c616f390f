"""Markers: the bytes of Apache Kafka 4.3.0, and bytes that are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.errors import Corrupt
from barnabas.wire.batch import check_crc, read_header
from barnabas.wire.control_records import EndMarker, marker_batch, read_marker
from barnabas.wire.records import Record, encode_batch

WRITTEN_BY_KAFKA = {
    True: "000000000000000000000042ffffffff023d226a5c0030000000000000018bcfe5687b0000018bcfe5687b"
    "0000000000000fa00007ffffffff000000012000000008000000010c00000000000900",
    False: "000000000000000000000042ffffffff02c91cbc140030000000000000018bcfe5687b0000018bcfe5687b"
    "0000000000000fa00007ffffffff000000012000000008000000000c00000000000900",
}


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_has_the_bytes_that_kafka_writes(commit: bool) -> None:
    marker = EndMarker(commit, 9)
    batch = marker_batch(4000, 7, marker, 1_700_000_000_123)
    assert batch.hex() == WRITTEN_BY_KAFKA[commit]
    header = read_header(batch)
    check_crc(batch, header)
    assert read_marker(batch, header) == marker


def control(key: bytes | None, value: bytes | None) -> bytearray:
    return encode_batch([Record(0, 0, key, value, ())], transactional=True, control=True)


def read(batch: bytearray) -> EndMarker | None:
    return read_marker(batch, read_header(batch))


def test_other_control_records_are_no_markers() -> None:
    assert read(control(b"\0\0\0\x02", b"anything")) is None


def test_a_marker_of_a_later_version_is_read() -> None:
    """Later versions only add at the end."""
    assert read(control(b"\0\x01\0\x01new", b"\0\x01\0\0\0\x05new")) == EndMarker(True, 5)


def test_a_marker_that_was_compacted_away_is_none() -> None:
    assert read(encode_batch([], transactional=True, control=True, last_offset_delta=0)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0\0\0\0\0"),
        (b"\0\0\0", b"\0\0\0\0\0\0"),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\x01", None),
        (b"\0\0\0\x01", b"\0\0\0\0\0"),
        (b"\0\0\0\x01", b"\xff\xff\0\0\0\0"),
    ],
)
def test_a_broken_marker_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(Corrupt):
        read(control(key, value))


@given(st.booleans(), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 32767))
def test_markers_read_back(commit: bool, coordinator: int, producer: int, epoch: int) -> None:
    marker = EndMarker(commit, coordinator)
    assert read(marker_batch(producer, epoch, marker, 5)) == marker
