"""Producer snapshots as bytes."""

import struct

import pytest
from crc32c import crc32c

from barnabas.log.producers.snapshots import CorruptSnapshot, decode, encode
from barnabas.log.producers.state import ProducerStates


def states(producers: int, batches: int) -> ProducerStates:
    result = ProducerStates()
    for number in range(producers * batches):
        result.record(
            number % producers, 1, number // producers * 2, number * 2, number * 2 + 1, 99
        )
    return result


@pytest.mark.parametrize(("producers", "batches"), [(0, 0), (1, 1), (3, 4), (2, 20)])
def test_a_snapshot_brings_back_every_window(producers: int, batches: int) -> None:
    before = states(producers, batches)
    assert decode(encode(before)).entries == before.entries


def test_the_layout_is_kafkas() -> None:
    one = ProducerStates()
    one.record(5, 2, 10, 100, 102, 77)
    body = struct.pack(">iqhiqiqiq", 1, 5, 2, 12, 102, 2, 77, -1, -1)
    assert encode(one) == struct.pack(">hI", 1, crc32c(body)) + body


def test_kafkas_own_single_entry_gives_the_last_batch() -> None:
    body = struct.pack(">iqhiqiqiq", 1, 5, 2, 12, 102, 2, 77, 3, -1)
    state = decode(struct.pack(">hI", 1, crc32c(body)) + body).entries[5]
    assert (state.last_sequence, state.last_offset, state.coordinator_epoch) == (12, 102, 3)
    assert state.batches[0].base_offset == 100


def test_damage_anywhere_is_seen() -> None:
    good = encode(states(2, 2))
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 0xFF
        with pytest.raises(CorruptSnapshot):
            decode(bytes(bad))
        with pytest.raises(CorruptSnapshot):
            decode(good[:position])


def test_a_count_that_lies_is_refused() -> None:
    body = struct.pack(">i", 2**31 - 1)
    with pytest.raises(CorruptSnapshot, match="do not fit"):
        decode(struct.pack(">hI", 1, crc32c(body)) + body)
