"""Values as Java 17 gives them."""

from uuid import UUID

import pytest

from barnabas.assignment.java_order import (
    HashedPartitions,
    in_hash_order,
    partition_hash,
    slots_copied,
    slots_grown,
    text_hash,
    text_key,
    uuid_hash,
    uuid_key,
)
from barnabas.model.ids import TopicPartition


def _plain_hash(text: str) -> int:
    hashed = 0
    data = text_key(text)
    for high, low in zip(data[::2], data[1::2], strict=True):
        hashed = (31 * hashed + high * 256 + low) & 0xFFFFFFFF
    return hashed


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("a", 97), ("hello", 99162322), ("__consumer_offsets", -970371369)],
)
def test_text_hashes_as_in_java(text: str, hashed: int) -> None:
    assert text_hash(text) == hashed & 0xFFFFFFFF


@pytest.mark.parametrize("text", ["člen", "😀 party", "x" * 127, "xy" * 64, "é" + "x" * 999])
def test_long_text_and_all_scripts_hash_by_utf_16_units(text: str) -> None:
    assert text_hash(text) == _plain_hash(text)


def test_text_sorts_by_utf_16_units() -> None:
    """Code points would put the second last."""
    assert sorted(["ﬀ", "😀", "z"], key=text_key) == ["z", "😀", "ﬀ"]


def test_uuids_hash_and_sort_as_in_kafka() -> None:
    assert uuid_hash(UUID(int=1 << 64 | 3)) == 2
    assert uuid_hash(UUID(int=5 << 96 | 1)) == 4
    low, high = UUID(int=1), UUID(int=1 << 127)
    assert sorted([low, high], key=uuid_key) == [high, low]  # its first bit is a sign


def test_partitions_hash_as_in_kafka() -> None:
    assert partition_hash(TopicPartition("a", 2)) == 31 * 33 + 97


@pytest.mark.parametrize(
    ("count", "grown", "copied"),
    [(0, 16, 16), (11, 16, 16), (12, 16, 32), (13, 32, 32), (24, 32, 64), (25, 64, 64)],
)
def test_tables_have_as_many_slots_as_in_java(count: int, grown: int, copied: int) -> None:
    assert (slots_grown(count), slots_copied(count)) == (grown, copied)


def test_within_a_slot_the_first_to_enter_comes_first() -> None:
    assert in_hash_order([33, 16, 1, 0], lambda number: number, 16) == [16, 0, 33, 1]


def test_a_set_that_has_grown_stays_large() -> None:
    partitions = HashedPartitions()
    numbers = [TopicPartition("", number) for number in range(13)]
    for partition in numbers:
        partitions.add(partition)
    for partition in numbers[2:]:
        partitions.remove(partition)
    # 31 * 31 and 31 * 32: in 32 slots 1 and 0.
    assert partitions.first() == TopicPartition("", 1)
