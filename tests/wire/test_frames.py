"""Requests and responses with their headers, as they cross a connection."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_writer

from barnabas.model.errors import Code
from barnabas.model.ports import FileSlice
from barnabas.wire.apis import API_VERSIONS, APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import (
    RequestHeader,
    read_request_header,
    read_response,
    request_frame,
    request_parts,
    response_parts,
)
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.primitives import Malformed, uvarint
from tests.wire.samples import CASES, case_name, few, messages

UNTOUCHED: Any = None  # the file of a slice: encoding never looks at it
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
REQUESTS = [case for case in CASES if case[0].__name__.endswith("Request")]
RESPONSES = [case for case in CASES if case[0].__name__.endswith("Response")]


@pytest.mark.parametrize(("message", "version"), REQUESTS, ids=case_name)
def test_a_request_frame_has_the_header_of_its_version(
    message: type[ProtocolMessage], version: int
) -> None:
    flexible = version >= message.flexible_from
    header_class = KioHeaderV2 if flexible else KioHeaderV1

    @few
    @given(messages(message, version), st.none() | st.text("aé", max_size=9))
    def check(request: ProtocolMessage, client_id: str | None) -> None:
        frame = request_frame(message.api_key, version, 77, client_id, request)
        out = io.BytesIO()
        kio_header = header_class(
            request_api_key=message.api_key,  # type: ignore[arg-type]
            request_api_version=version,  # type: ignore[arg-type]
            correlation_id=77,  # type: ignore[arg-type]
            client_id=client_id,
        )
        entity_writer(header_class)(out, kio_header)
        body = out.getvalue() + request.encode(version)
        assert frame == len(body).to_bytes(4, "big") + body
        header = read_request_header(memoryview(frame)[4:])
        position = len(out.getvalue())
        assert header == RequestHeader(message.api_key, version, 77, client_id, position)
        assert message.decode(frame[4:], version, header.body_position) == request

    check()


@pytest.mark.parametrize(("message", "version"), RESPONSES, ids=case_name)
def test_a_response_frame_reads_back(message: type[ProtocolMessage], version: int) -> None:
    @few
    @given(messages(message, version))
    def check(response: ProtocolMessage) -> None:
        parts = response_parts(message.api_key, version, 99, response)
        frame = b"".join(parts)  # type: ignore[arg-type]
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert read_response(frame[4:], message.api_key, version) == (99, response)

    check()


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_an_api_versions_response_always_has_the_oldest_header(version: int) -> None:
    response = ApiVersionsResponse(error_code=0, api_keys=[])
    (frame,) = response_parts(API_VERSIONS, version, 5, response)
    assert bytes(frame)[4:] == b"\0\0\0\5" + response.encode(version)  # type: ignore[arg-type]


def test_a_flexible_response_has_tags_in_its_header() -> None:
    (frame,) = response_parts(12, 4, 5, HeartbeatResponse(error_code=0))
    assert frame == bytes.fromhex("0000000c 00000005 00 00000000 0000 00")


@pytest.mark.parametrize("version", [5, 6, 1000, -1])
def test_api_versions_of_an_unknown_version_can_still_be_answered(version: int) -> None:
    """A newer client asks blindly; what it needs back is version 0 and its correlation id."""
    frame = request_frame(
        API_VERSIONS, 4, 1234, "new", ApiVersionsRequest(client_software_name="a-client")
    )
    changed = frame[4:6] + version.to_bytes(2, "big", signed=True) + frame[8:]
    header = read_request_header(memoryview(changed))
    assert header == RequestHeader(API_VERSIONS, version, 1234, None, 8)
    refusal = ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION, api_keys=[])
    (answer,) = response_parts(API_VERSIONS, 0, header.correlation_id, refusal)
    assert answer == bytes.fromhex("0000000a 000004d2 0023 00000000")


def test_an_unknown_api_gives_its_first_eight_bytes_and_no_more() -> None:
    header = read_request_header(bytes.fromhex("7fff 0003 0000002a ff"))
    assert header == RequestHeader(0x7FFF, 3, 42, None, 8)


def test_produce_is_advertised_from_0_though_3_is_the_oldest_accepted() -> None:
    """An old librdkafka that does not see 0 sends uncompressed without a word."""
    assert (APIS[0].advertised_min, APIS[0].min_version) == (0, 3)
    assert all(api.advertised_min == api.min_version for key, api in APIS.items() if key)


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ("", "0 bytes, 8 needed"),
        ("000c 0000 000000", "7 bytes, 8 needed"),
        ("000c 0000 00000001", "8 bytes, 10 needed"),
        ("000c 0000 00000001 0005 61", "client id of 5 bytes: 1 are left"),
        ("000c 0000 00000001 fffe", "client id of 65534 bytes"),
        ("000c 0000 00000001 0001 ff", "client id is not UTF-8"),
        ("000c 0004 00000001 0000", "varint at byte 10 is cut short"),
        ("000c 0004 00000001 ffff 01 00 05 00", "tag 0 of 5 bytes: 1 are left"),
        ("000c 0004 00000001 ffff 02 00 00 00 00", "tag 0 follows tag 0"),
        ("000c 0004 00000001 ffff ffffffff0f", "tagged fields, 1000 at most"),
    ],
)
def test_a_bad_header_is_malformed(frame: str, complaint: str) -> None:
    with pytest.raises(Malformed, match=complaint):
        read_request_header(bytes.fromhex(frame))


def test_unknown_tags_in_a_header_are_stepped_over() -> None:
    tags = uvarint(2) + b"\x00\x02ab" + b"\x07\x00"
    frame = request_frame(12, 4, 1, None, BEAT)[4:]
    tagged = frame[:10] + tags + frame[11:]
    header = read_request_header(tagged)
    assert HeartbeatRequest.decode(tagged, 4, header.body_position) == BEAT


def fetch_response(*payloads: bytes | memoryview | FileSlice | None) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=index, error_code=0, high_watermark=9, records=records)
        for index, records in enumerate(payloads)
    ]
    topic = FetchableTopicResponse(topic="t", partitions=partitions)
    return FetchResponse(responses=[topic])


@pytest.mark.parametrize("version", [4, 11, 12])
def test_records_of_a_response_stand_as_their_own_parts(version: int) -> None:
    payload = memoryview(b"second batch")
    in_file = FileSlice(UNTOUCHED, 10, 5000)
    parts = response_parts(1, version, 3, fetch_response(b"first", payload, None, b"", in_file))
    assert [part for part in parts if not isinstance(part, bytes)] == [b"first", payload, in_file]
    assert any(part is payload for part in parts)
    joined = b"".join(bytes(5000) if isinstance(p, FileSlice) else p for p in parts)
    stand_in = fetch_response(b"first", payload, None, b"", bytes(5000))
    assert read_response(joined[4:], 1, version) == (3, stand_in)


def test_the_size_counts_records_that_stay_in_their_file() -> None:
    slices = [FileSlice(UNTOUCHED, 0, 1_000_000), FileSlice(UNTOUCHED, 5, 300)]
    parts = response_parts(1, 11, 3, fetch_response(*slices))
    assert [part for part in parts if isinstance(part, FileSlice)] == slices
    assert len(parts) == 4
    sizes = [p.length if isinstance(p, FileSlice) else len(p) for p in parts]
    assert isinstance(parts[0], bytes)
    assert int.from_bytes(parts[0][:4], "big") == sum(sizes) - 4


def test_a_request_sends_its_records_uncopied() -> None:
    records = memoryview(bytes(5000))
    partition = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="t", partition_data=[partition])
    request = ProduceRequest(acks=1, timeout_ms=5, topic_data=[topic])
    parts = request_parts(0, 9, 1, "c", request)
    assert any(part is records for part in parts)
    assert b"".join(parts) == request_frame(0, 9, 1, "c", request)  # type: ignore[arg-type]
