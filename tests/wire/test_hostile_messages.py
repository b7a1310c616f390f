"""Bytes that are not what they claim to be: Malformed, soon, and without much memory."""

import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.codec import ELEMENTS_MAX, ProtocolMessage
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest
from barnabas.wire.messages.delete_records import DeleteRecordsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.primitives import Malformed, uvarint
from tests.share import IN_FULL
from tests.wire.samples import CASES, case_name, few, messages

MUTATIONS = 15 if IN_FULL else 5  # of each message


def mutated(data: bytes, random: Random) -> bytes:
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 3))):
        at = random.randrange(len(out) + 1)
        match random.randrange(5):
            case 0:
                del out[at:]
            case 1:
                out[at:at] = random.randbytes(random.randrange(1, 6))
            case 2 if at < len(out):
                out[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
            case 3 if at < len(out):
                out[at] ^= 1 << random.randrange(8)
            case _:
                del out[at : at + random.randrange(1, 5)]
    return bytes(out)


@pytest.mark.parametrize(("message", "version"), CASES, ids=case_name)
def test_mutated_bytes_decode_or_are_malformed_and_every_truncation_is_malformed(
    message: type[ProtocolMessage], version: int
) -> None:
    """And whatever decodes can be written again."""

    @few
    @given(messages(message, version), st.randoms(use_true_random=False))
    def check(sent: ProtocolMessage, random: Random) -> None:
        data = sent.encode(version)
        for _ in range(MUTATIONS):
            try:
                read = message.decode(mutated(data, random), version)
            except Malformed:
                continue
            assert message.decode(read.encode(version), version) == read
        for length in {*range(min(len(data), 40)), *range(0, len(data), 37)}:
            with pytest.raises(Malformed):
                message.decode(data[:length], version)

    check()


@pytest.mark.parametrize(
    ("message", "version", "data", "complaint"),
    [
        (HeartbeatRequest, 0, "0005 6162", "group_id at byte 2: length 5, 2 bytes are left"),
        (HeartbeatRequest, 0, "ffff", "group_id at byte 2: length -1 where null is not allowed"),
        (HeartbeatRequest, 0, "8000", "group_id at byte 2: length -32768"),
        (HeartbeatRequest, 0, "0001 ff", "group_id at byte 2: not UTF-8"),
        (HeartbeatRequest, 0, "0001 61 0000", "cut short, 2 bytes are left"),
        (HeartbeatRequest, 3, "0000 00000000 0000 fffe", "group_instance_id at byte 10: length -2"),
        (HeartbeatRequest, 4, "00", "group_id at byte 1: length -1 where null is not allowed"),
        (HeartbeatRequest, 4, "ffffffffff01", "longer than 5 bytes"),
        (HeartbeatRequest, 4, "ffffffff7f", "overflows"),
        (HeartbeatRequest, 4, "8080808080", "longer than 5 bytes"),
        (HeartbeatRequest, 4, "8080", "cut short"),
        (HeartbeatRequest, 4, "828002" + "61" * 32769, "length 32769"),
        (HeartbeatRequest, 4, "01 00000000 01 00 02 0100 0100", "tag 1 follows tag 1"),
        (HeartbeatRequest, 4, "01 00000000 01 00 02 0100 0000", "tag 0 follows tag 1"),
        (HeartbeatRequest, 4, "01 00000000 01 00 01 0105", "tag 1 of 5 bytes: 0 are left"),
        (HeartbeatRequest, 4, "01 00000000 01 00 7f 0100", "127 elements of 2 bytes or more"),
        (MetadataRequest, 0, "ffffffff", "topics at byte 4: null is not allowed"),
        (MetadataRequest, 1, "fffffffe", "topics at byte 4: count -2"),
        (MetadataRequest, 1, "7fffffff", "2147483647 elements of 2 bytes or more, 0 bytes"),
        (MetadataRequest, 9, "ffffffff0f", "4294967294 elements of 2 bytes or more"),
        (MetadataRequest, 9, "02 0000", "topics.name at byte 2: length -1 where null"),
        (DescribeTopicPartitionsRequest, 0, "01 00000001 02", "cursor"),
        (
            FetchRequest,
            12,
            "00" * 25 + "010101 01 00 03 05 6162",
            "cluster_id at byte 32: length 4",
        ),
    ],
)
def test_a_complaint_names_message_field_and_position(
    message: type[ProtocolMessage], version: int, data: str, complaint: str
) -> None:
    with pytest.raises(Malformed) as caught:
        message.decode(bytes.fromhex(data), version)
    assert complaint in str(caught.value)
    assert f"{message.__name__} version {version}: " in str(caught.value)
    assert caught.value.code is Code.INVALID_REQUEST


@pytest.mark.parametrize(
    ("message", "version", "head", "element", "lead"),
    [
        (DeleteTopicsRequest, 1, b"", b"\0\0", b"\0\x0f\x42\x40"),
        (DeleteTopicsRequest, 4, b"", b"\1", uvarint(1_000_001)),
        (DeleteRecordsRequest, 2, b"\2\2a", bytes(13), uvarint(1_000_001)),
        (FetchRequest, 4, bytes(17), b"\0\0\0\0\0\0", b"\0\x0f\x42\x40"),
        (CreatePartitionsRequest, 0, b"\0\0\0\1\0\0\0\0\0\0\0\0\0\1", bytes(4), b"\0\x0f\x42\x40"),
    ],
)
def test_a_million_elements_are_refused_before_any_is_made(
    message: type[ProtocolMessage], version: int, head: bytes, element: bytes, lead: bytes
) -> None:
    data = head + lead + element * 1_000_000
    with pytest.raises(Malformed):  # compiles the decoder before memory is counted
        message.decode(b"", version)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="1000000 elements"):
            message.decode(data, version)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_the_budget_counts_nested_elements_of_the_whole_message() -> None:
    partitions = ELEMENTS_MAX // 4
    topic = b"\0\0" + partitions.to_bytes(4, "big") + bytes(12 * partitions)
    enough = b"\0\0\0\3" + topic * 3 + bytes(4)
    assert len(DeleteRecordsRequest.decode(enough, 0).topics) == 3
    with pytest.raises(Malformed, match="more than a message may have"):
        DeleteRecordsRequest.decode(b"\0\0\0\4" + topic * 4 + bytes(4), 0)


def test_unknown_tags_are_stepped_over_without_keeping_them() -> None:
    known = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    tags = b"".join(uvarint(tag) + b"\x0b" + bytes(11) for tag in range(1, 20_001))
    data = known.encode(4)[:-1] + uvarint(20_000) + tags
    HeartbeatRequest.decode(known.encode(4), 4)
    tracemalloc.start()
    try:
        assert HeartbeatRequest.decode(data, 4) == known
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_tags_come_out_of_the_same_budget_as_elements() -> None:
    count = ELEMENTS_MAX + 1
    data = ApiVersionsRequest(client_software_name="a", client_software_version="1").encode(3)
    with pytest.raises(Malformed, match="more than a message may have"):
        ApiVersionsRequest.decode(data[:-1] + uvarint(count) + bytes(2 * count), 3)


def test_a_tagged_field_must_fill_its_size() -> None:
    data = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], cluster_id="ab").encode(12)
    assert data.endswith(b"\x01\x00\x03\x03ab")
    with pytest.raises(Malformed, match=r"cluster_id .* is not 4 bytes long"):
        FetchRequest.decode(data[:-4] + b"\x04\x03abc", 12)


def test_a_version_not_spoken_is_an_error_of_its_own() -> None:
    for version in (-1, 2, 14, 0x7FFF):
        with pytest.raises(InvalidRequest, match="versions 3 to 13 are supported") as caught:
            ProduceRequest.decode(b"", version)
        assert caught.value.code is Code.UNSUPPORTED_VERSION
