"""Decides in which order Java's hash tables and sorts hand things out.

Some of Kafka's assignors walk a `HashMap`, and who comes first keeps the odd partition. A group
whose leader moves from a Java client to ours must not be shuffled for that, so we walk in the
same order: by the key's place in a table of so many slots, and within a slot by time of entry.

In: keys, what they hash to, the number of slots. Out: the keys in that order.
Not here: slots with nine keys or more, which Java turns into trees with an order of their own;
with a table at most three quarters full that takes hostile keys.
"""

import struct
from collections.abc import Callable, Iterable
from operator import mul
from typing import TypeVar
from uuid import UUID

from barnabas.model.ids import TopicPartition

K = TypeVar("K")

_MASK = 0xFFFFFFFF
_SLOTS_MIN = 16
_POWERS = tuple(pow(31, exponent, 1 << 32) for exponent in range(128))


def text_key(text: str) -> bytes:
    """Sorts as Java's `String` does: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def text_hash(text: str) -> int:
    """`String.hashCode`, without the sign."""
    if text.isascii():
        units: bytes | tuple[int, ...] = text.encode()
    else:
        data = text_key(text)
        units = struct.unpack(f">{len(data) // 2}H", data)
    hashed = 0
    for start in range(0, len(units), len(_POWERS)):
        part = units[start : start + len(_POWERS)]
        # One pass in C instead of a step of Python per character.
        hashed = hashed * pow(31, len(part), 1 << 32) + sum(map(mul, reversed(part), _POWERS))
        hashed &= _MASK
    return hashed


def uuid_hash(value: UUID) -> int:
    halves = (value.int >> 64) ^ value.int
    return ((halves >> 32) ^ halves) & _MASK


def uuid_key(value: UUID) -> tuple[int, int]:
    """Sorts as Kafka's `Uuid` does: by two signed halves."""
    high, low = struct.unpack(">qq", value.bytes)
    return high, low


def partition_hash(partition: TopicPartition) -> int:
    return (31 * (31 + partition.partition) + text_hash(partition.topic)) & _MASK


def slots_grown(count: int) -> int:
    """Slots of a table that started empty and took `count` keys one by one."""
    slots = _SLOTS_MIN
    while count > slots * 3 // 4:
        slots *= 2
    return slots


def slots_copied(count: int) -> int:
    """Slots of a set made at once from a collection of `count`."""
    slots = _SLOTS_MIN
    while slots < int(count / 0.75) + 1:
        slots *= 2
    return slots


def slot_of(hashed: int, slots: int) -> int:
    return (hashed ^ (hashed >> 16)) & (slots - 1)


def in_hash_order(keys: Iterable[K], hash_of: Callable[[K], int], slots: int) -> list[K]:
    """The keys, given in order of entry, as a walk through the table meets them."""
    return sorted(keys, key=lambda key: slot_of(hash_of(key), slots))


class HashedPartitions:
    """Partitions in a hash set that grew one by one: asked only which one it would name first."""

    def __init__(self) -> None:
        self._hashes: dict[TopicPartition, int] = {}
        self._slots = _SLOTS_MIN

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, partition: TopicPartition) -> None:
        self._hashes[partition] = partition_hash(partition)
        self._slots = max(self._slots, slots_grown(len(self._hashes)))  # it never shrinks

    def remove(self, partition: TopicPartition) -> None:
        del self._hashes[partition]

    def first(self) -> TopicPartition:
        return min(self._hashes, key=lambda p: slot_of(self._hashes[p], self._slots))
