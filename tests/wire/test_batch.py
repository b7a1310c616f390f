"""The batch header: read, checked and written."""

import struct

import pytest

from barnabas.model.errors import Code, Corrupt, InvalidRequest
from barnabas.wire import batch as batch_module
from barnabas.wire.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    check_crc,
    read_header,
    write_header,
)

HEADER = BatchHeader(
    base_offset=7,
    length=0,
    leader_epoch=3,
    magic=0,
    crc=0,
    attributes=0,
    last_offset_delta=4,
    base_timestamp=1_000,
    max_timestamp=1_004,
    producer_id=11,
    producer_epoch=2,
    base_sequence=100,
    record_count=5,
)


def whole_batch(body: bytes = b"records", header: BatchHeader = HEADER) -> bytearray:
    batch = bytearray(HEADER_SIZE) + body
    write_header(batch, header)
    return batch


def test_a_written_header_reads_back_with_length_magic_and_checksum_filled_in() -> None:
    batch = whole_batch()
    header = read_header(batch)
    assert header == HEADER._replace(length=len(batch) - 12, magic=2, crc=header.crc)
    assert header.size == len(batch)
    assert header.last_offset == 11
    check_crc(batch, header)


def test_a_header_is_read_at_its_position() -> None:
    batch = whole_batch()
    view = memoryview(b"....." + bytes(batch) + b"...")
    header = read_header(view, 5)
    assert header == read_header(batch)
    check_crc(view, header, 5)


@pytest.mark.parametrize("size", range(HEADER_SIZE + 7))
def test_every_cut_of_a_batch_is_corrupt(size: int) -> None:
    with pytest.raises(Corrupt, match="cut short"):
        read_header(whole_batch()[:size])


@pytest.mark.parametrize("magic", [-1, 0, 1, 3])
def test_other_magics_are_refused_even_where_the_header_is_not_whole(magic: int) -> None:
    batch = whole_batch()
    struct.pack_into(">b", batch, 16, magic)
    for part in (batch, batch[:17]):
        with pytest.raises(Corrupt, match=f"magic {magic}"):
            read_header(part)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, HEADER_SIZE - LENGTH_OVERHEAD - 1])
def test_a_length_that_does_not_cover_the_header_is_corrupt(length: int) -> None:
    batch = whole_batch()
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(Corrupt, match=f"length {length}"):
        read_header(batch)


def test_a_length_beyond_the_view_is_corrupt() -> None:
    batch = whole_batch()
    struct.pack_into(">i", batch, 8, 2**31 - 1)
    with pytest.raises(Corrupt, match="cut short"):
        read_header(batch)


@pytest.mark.parametrize("position", range(HEADER_SIZE + 7))
def test_the_checksum_covers_all_but_what_a_broker_writes(position: int) -> None:
    batch = whole_batch()
    batch[position] ^= 1
    if position < 8 or 12 <= position < 16:  # base offset, leader epoch
        check_crc(batch, read_header(batch))
        return
    with pytest.raises(Corrupt):
        check_crc(batch, read_header(batch))


def test_the_last_sequence_wraps_to_zero_behind_31_bits() -> None:
    assert HEADER.last_sequence == 104
    assert HEADER._replace(base_sequence=2**31 - 3).last_sequence == 1
    assert HEADER._replace(base_sequence=-1).last_sequence == -1


def test_a_batch_too_large_for_its_length_field_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_module, "LENGTH_MAX", 50)  # 2 GiB, at the scale of a test
    with pytest.raises(InvalidRequest) as caught:
        whole_batch()
    assert caught.value.code is Code.MESSAGE_TOO_LARGE
