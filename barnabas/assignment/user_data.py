"""Reads and writes the user data that sticky assignors add to a subscription.

In: bytes from another member, perhaps invalid; or partitions and a generation to write.
Out: a `Claim`; or bytes as Kafka's Java client writes them, except for the order of topics, which
has no meaning.
Always: bytes that cannot be read claim nothing, as in Kafka; they never fail a rebalance.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.assignment.group import NO_GENERATION
from barnabas.model.ids import TopicPartition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Claim:
    """The partitions that a member claims to own, and in which generation."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


def encode_sticky(claim: Claim) -> bytes:
    """For `sticky`, version 1: topics with their partitions, then the generation."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in claim.partitions:
        by_topic.setdefault(topic, []).append(partition)
    parts = [_INT32.pack(len(by_topic))]
    for topic, partitions in by_topic.items():
        name = topic.encode()
        parts += [_INT16.pack(len(name)), name]
        parts.append(struct.pack(f">i{len(partitions)}i", len(partitions), *partitions))
    parts.append(_INT32.pack(claim.generation))
    return b"".join(parts)


def decode_sticky(data: bytes | None) -> Claim:
    """Reads user data of `sticky`, version 1 or 0; version 0 has no generation."""
    if not data:
        return Claim()
    try:
        partitions, end = _read_partitions(data)
    except (struct.error, ValueError):
        return Claim()
    generation = _INT32.unpack_from(data, end)[0] if len(data) >= end + 4 else NO_GENERATION
    return Claim(tuple(partitions), generation)


def encode_cooperative(generation: int) -> bytes:
    """For `cooperative-sticky`: the generation; partitions are in the subscription itself."""
    return _INT32.pack(generation)


def decode_cooperative(data: bytes | None) -> int:
    if data is None or len(data) < _INT32.size:
        return NO_GENERATION
    generation: int = _INT32.unpack_from(data)[0]
    return generation


def _read_partitions(data: bytes) -> tuple[Sequence[TopicPartition], int]:
    partitions: list[TopicPartition] = []
    (topics,) = _INT32.unpack_from(data)
    at = _INT32.size
    _check_fits(topics, 1, data, at)
    for _ in range(topics):
        (length,) = _INT16.unpack_from(data, at)
        at += _INT16.size
        _check_fits(length, 1, data, at)
        topic = data[at : at + length].decode("utf-8", "replace")
        at += length
        (count,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        _check_fits(count, _INT32.size, data, at)
        partitions += [TopicPartition(topic, n) for n in struct.unpack_from(f">{count}i", data, at)]
        at += count * _INT32.size
    return partitions, at


def _check_fits(count: int, size: int, data: bytes, at: int) -> None:
    """A count is checked before memory of its size is allocated."""
    if count < 0 or count * size > len(data) - at:
        raise ValueError(f"{count} of {size} bytes do not fit into the {len(data) - at} left")
