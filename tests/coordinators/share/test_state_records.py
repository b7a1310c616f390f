"""Records of __share_group_state. The bytes were written by Apache Kafka 4.3.0's own classes."""

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinators.share.keys import (
    StateKey,
    coordinator_key,
    parse_coordinator_key,
    state_partition_of,
)
from barnabas.coordinators.share.records import (
    SnapshotRecord,
    StateTombstone,
    UpdateRecord,
    decode,
    encode,
)
from barnabas.coordinators.share.state_batches import StateBatch, combine
from barnabas.model.errors import Corrupt, InvalidRequest

KEY = StateKey("grüße", UUID("01020304-0506-0708-1112-131415161718"), 3)
SNAPSHOT = SnapshotRecord(
    KEY,
    2,
    5,
    7,
    100,
    1_700_000_000_000,
    1_700_000_000_001,
    (StateBatch(100, 103, 2, 1), StateBatch(105, 200, 0, 3)),
    4,
)
UPDATE = UpdateRecord(KEY, 2, 7, -1, (StateBatch(1, 1, 4, 5),))
SNAPSHOT_BYTES = (
    "000000076772c3bcc39f650102030405060708111213141516171800000003",
    "000000000002000000050000000700000000000000640000018bcfe568000000018bcfe568010300000000000000"
    "64000000000000006702000100000000000000006900000000000000c80000030001000400000004",
)
UPDATE_BYTES = (
    "000100076772c3bcc39f650102030405060708111213141516171800000003",
    "00000000000200000007ffffffffffffffff02000000000000000100000000000000010400050000",
)


@pytest.mark.parametrize(("record", "stored"), [(SNAPSHOT, SNAPSHOT_BYTES), (UPDATE, UPDATE_BYTES)])
def test_a_record_has_the_bytes_of_kafka(
    record: SnapshotRecord | UpdateRecord, stored: tuple[str, str]
) -> None:
    key, value = (bytes.fromhex(part) for part in stored)
    assert encode(record) == (key, value)
    assert decode(key, value) == record


def test_a_deleted_state_is_a_snapshot_key_without_a_value() -> None:
    key, value = encode(StateTombstone(KEY))
    assert (key.hex(), value) == (SNAPSHOT_BYTES[0], None)
    assert decode(key, None) == StateTombstone(KEY)


def test_a_record_of_a_later_kind_is_skipped() -> None:
    assert decode(bytes.fromhex("0002") + bytes(30), b"\0\0") is None
    assert decode(bytes.fromhex(SNAPSHOT_BYTES[0]), b"\0\1rest") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0", b""),
        (bytes.fromhex(SNAPSHOT_BYTES[0])[:-1], bytes.fromhex(SNAPSHOT_BYTES[1])),
        (bytes.fromhex(SNAPSHOT_BYTES[0]), bytes.fromhex(SNAPSHOT_BYTES[1])[:-8]),
    ],
)
def test_a_torn_record_is_corrupt(key: bytes, value: bytes) -> None:
    with pytest.raises(Corrupt):
        decode(key, value)


def test_the_key_of_a_coordinator_is_kafkas() -> None:
    key = StateKey("a:b", KEY.topic_id, 12)
    assert coordinator_key(key) == "a:b:AQIDBAUGBwgREhMUFRYXGA:12"
    assert parse_coordinator_key("a:b:AQIDBAUGBwgREhMUFRYXGA:12") == key
    assert 0 <= state_partition_of(key, 50) < 50


@pytest.mark.parametrize("text", ["", "g", "g:t:0", "g:AQIDBAUGBwgREhMUFRYXGA:-1", ":x:1", "a:b:c"])
def test_another_form_of_key_is_an_invalid_request(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_coordinator_key(text)


BATCHES = st.lists(
    st.builds(
        lambda first, length, state, attempts: StateBatch(first, first + length, state, attempts),
        st.integers(0, 30),
        st.integers(0, 10),
        st.sampled_from((0, 2, 4)),
        st.integers(0, 3),
    ),
    max_size=8,
)


@given(BATCHES, BATCHES, st.integers(-1, 35))
def test_merged_ranges_have_the_highest_state_of_each_offset(
    older: list[StateBatch], newer: list[StateBatch], start: int
) -> None:
    so_far = combine((), tuple(older), -1)
    merged = combine(so_far, tuple(newer), start)
    expected: dict[int, tuple[int, int]] = {}
    for first, last, state, attempts in older + newer:
        for offset in range(max(first, start), last + 1):
            expected[offset] = max(expected.get(offset, (-1, -1)), (attempts, state))
    found = {
        offset: (attempts, state)
        for first, last, state, attempts in merged
        for offset in range(first, last + 1)
    }
    assert found == expected
    for before, after in pairwise(merged):
        assert before.last < after.first
        assert before.last + 1 < after.first or before[2:] != after[2:]
