"""Records of __consumer_offsets, byte for byte as Kafka writes them."""

from collections.abc import Callable
from random import Random

import pytest

from barnabas.coordinators.groups.records import (
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetCommitValue,
    OffsetRecord,
    Record,
    _decode,
    decode,
    encode,
    partition_of,
)
from barnabas.model.errors import Corrupt

OFFSET = OffsetRecord(
    "g", "topic", 3, OffsetCommitValue(offset=42, metadata="m", commit_timestamp=1_000)
)
GENERATION = GroupRecord(
    "g",
    GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="a-1",
        current_state_timestamp=1_000,
        members=[
            MemberMetadata(
                member_id="a-1",
                group_instance_id=None,
                client_id="a",
                client_host="/127.0.0.1",
                rebalance_timeout=60_000,
                session_timeout=10_000,
                subscription=b"s",
                assignment=b"p",
            )
        ],
    ),
)


def test_an_offset_is_kafkas_bytes() -> None:
    ((key, value),) = encode([OFFSET])
    assert key.hex(" ") == "00 01 00 01 67 00 05 74 6f 70 69 63 00 00 00 03"
    assert value is not None
    assert value.hex(" ") == (
        "00 03 00 00 00 00 00 00 00 2a ff ff ff ff 00 01 6d 00 00 00 00 00 00 03 e8"
    )


def test_an_offset_with_an_expiry_is_written_in_version_1_which_alone_has_one() -> None:
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=5, expire_timestamp=9)
    ((key, data),) = encode([OffsetRecord("g", "t", 0, value)])
    assert data is not None
    assert data[:2] == b"\0\x01"
    assert decode(key, data) == OffsetRecord("g", "t", 0, value)


def test_a_generation_is_kafkas_bytes() -> None:
    ((key, value),) = encode([GENERATION])
    assert key.hex(" ") == "00 02 00 01 67"
    assert value is not None
    assert value == (
        b"\0\x03"
        b"\0\x08consumer\0\0\0\x07\0\x05range\0\x03a-1\0\0\0\0\0\0\x03\xe8"
        b"\0\0\0\x01\0\x03a-1\xff\xff\0\x01a\0\x0a/127.0.0.1\0\0\xea\x60\0\0\x27\x10"
        b"\0\0\0\x01s\0\0\0\x01p"
    )


@pytest.mark.parametrize(
    "record",
    [OFFSET, GENERATION, OffsetRecord("g", "topic", 3, None), GroupRecord("g", None)],
)
def test_what_is_written_is_read(record: Record) -> None:
    assert decode(*encode([record])[0]) == record


@pytest.mark.parametrize("version", range(5))
def test_every_version_that_ever_was_is_read(version: int) -> None:
    assert OFFSET.value is not None
    assert GENERATION.value is not None
    ((key, _),) = encode([OFFSET])
    stored = OFFSET.value.encode(version)
    read = decode(key, version.to_bytes(2) + stored)
    assert isinstance(read, OffsetRecord)
    assert read.value == OFFSET.value
    ((key, _),) = encode([GENERATION])
    generation = decode(key, version.to_bytes(2) + GENERATION.value.encode(version))
    assert isinstance(generation, GroupRecord)
    assert generation.value is not None
    assert generation.value.members[0].assignment == b"p"


def test_records_of_kinds_to_come_are_passed_over() -> None:
    assert decode(b"\0\x18\0\x01g", b"\0\0whatever") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"", None), (b"\0", None), (b"\0\x01\0\x09g", None), (b"\0\x02\0\x01g", b"\0\x03\0")],
)
def test_a_record_that_cannot_be_read_is_corrupt(key: bytes, value: bytes | None) -> None:
    with pytest.raises(Corrupt):
        decode(key, value)


def test_many_records_are_encoded_as_each_of_them_is() -> None:
    value = OFFSET.value
    records = [
        OffsetRecord(group, topic, partition, value if partition else None)
        for group in ("a", "b")
        for topic in ("t", "u")
        for partition in range(3)
    ]
    records_and_more: list[Record] = [*records, GENERATION, *records]
    one_by_one = [encode([record])[0] for record in records_and_more]
    assert encode(records_and_more) == one_by_one
    assert [decode(*each) for each in one_by_one] == records_and_more


@pytest.mark.parametrize("seed", range(20))
def test_the_quick_way_to_read_an_offset_reads_what_the_long_way_does(seed: int) -> None:
    """Also when bytes are wrong, which must never be read as something else."""
    random = Random(seed)
    for _ in range(200):
        record = OffsetRecord(
            random.choice(("", "g", "gruppe-ü")),
            random.choice(("t", "topic")),
            random.choice((0, 7, 2**31 - 1)),
            OffsetCommitValue(
                offset=random.choice((0, -1, 2**63 - 1)),
                metadata=random.choice(("", "m")),
                commit_timestamp=random.randrange(2**40),
            ),
        )
        ((key, value),) = encode([record])
        assert value is not None
        key, value = mutated(key, random), mutated(value, random)
        assert outcome(decode, key, value) == outcome(_decode, key, value)


def mutated(data: bytes, random: Random) -> bytes:
    if random.random() < 0.5:
        return data
    at = random.randrange(len(data))
    return random.choice(
        (
            data[:at],
            data[:at] + bytes([random.randrange(256)]) + data[at + 1 :],
            data[:at] + b"\0" + data[at:],
            data + b"\0",
        )
    )


def outcome(read: Callable[[bytes, bytes], Record | None], key: bytes, value: bytes) -> object:
    try:
        return read(key, value)
    except Corrupt:
        return Corrupt


def test_a_value_of_an_unknown_version_is_corrupt() -> None:
    ((key, _),) = encode([OFFSET])
    with pytest.raises(Corrupt, match="version 9"):
        decode(key, b"\0\x09" + bytes(30))


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        # Worked out with Java: Utils.abs(group.hashCode()) % 50.
        ("", 0),
        ("a", 47),
        ("my-group", 12),
        ("console-consumer-12345", 6),
        ("groupe-été", 3),
        ("群组", 8),
        ("😀", 49),
        ("polygenelubricants", 0),
    ],
)
def test_a_group_lives_where_kafka_puts_it(group: str, partition: int) -> None:
    assert partition_of(group, 50) == partition
