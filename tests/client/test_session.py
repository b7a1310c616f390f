"""One connection's side of the protocol, byte by byte, with brokers of every mood."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.session import ProtocolSession
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import read_request_header, response_parts
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse

METADATA = 3


def new_session(size_max: int = 1 << 20) -> ProtocolSession:
    return ProtocolSession("test", ("barnabas", "0.0.0"), size_max)


def feed(session: ProtocolSession, data: bytes, step: int = 1 << 30) -> list[ProtocolMessage]:
    """As a socket would, in pieces of `step`."""
    found: list[ProtocolMessage] = []
    while data:
        room = session.room()
        count = min(len(room), step, len(data))
        room[:count] = data[:count]
        found += session.received(count)
        data = data[count:]
    return found


def answer(version: int, correlation_id: int, response: ProtocolMessage) -> bytes:
    parts = response_parts(response.api_key, version, correlation_id, response)
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]


def versions(*ranges: tuple[int, int, int], error: int = 0) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[ApiVersion(api_key=k, min_version=a, max_version=b) for k, a, b in ranges],
    )


def greeted(*ranges: tuple[int, int, int], step: int = 1 << 30) -> ProtocolSession:
    session = new_session()
    session.greeting()
    (response,) = feed(session, answer(3, 0, versions(*ranges)), step)
    assert session.greeted(response) is None
    return session


def test_the_greeting_says_who_is_there() -> None:
    (frame,) = new_session().greeting()
    header = read_request_header(bytes(frame)[4:])  # type: ignore[arg-type]
    assert (header.api_key, header.api_version, header.client_id) == (18, 3, "test")
    assert b"barnabas" in bytes(frame)[header.body_position :]  # type: ignore[arg-type]


def test_a_broker_too_old_for_the_greeting_is_greeted_again_in_version_0() -> None:
    session = new_session()
    session.greeting()
    refusal = versions((18, 0, 2), error=Code.UNSUPPORTED_VERSION)
    (response,) = feed(session, answer(0, 0, refusal))
    again = session.greeted(response)
    assert again is not None
    assert read_request_header(bytes(again[0])[4:]).api_version == 0  # type: ignore[arg-type]
    (response,) = feed(session, answer(0, 1, versions((METADATA, 0, 5))))
    assert session.greeted(response) is None
    assert session.version_of(METADATA) == 5


@pytest.mark.parametrize(
    ("offered", "chosen"), [((0, 5), 5), ((0, 13), 13), ((0, 99), 13), ((2, 2), 2)]
)
def test_the_highest_version_both_speak_is_chosen(offered: tuple[int, int], chosen: int) -> None:
    assert greeted((METADATA, *offered)).version_of(METADATA) == chosen


def test_a_caller_may_ask_for_less() -> None:
    assert greeted((METADATA, 0, 13)).version_of(METADATA, 4) == 4


@pytest.mark.parametrize("offered", [[], [(METADATA, 14, 20)], [(0, 0, 9)]])
def test_no_common_version_is_said_before_anything_is_sent(
    offered: list[tuple[int, int, int]],
) -> None:
    session = greeted(*offered)
    with pytest.raises(InvalidRequest, match="Metadata needs version 0 to 13") as refused:
        session.request(MetadataRequest(topics=[]))
    assert refused.value.code is Code.UNSUPPORTED_VERSION
    assert session.pending == 0


@pytest.mark.parametrize("step", [1, 3, 1 << 30])
def test_answers_come_whole_and_in_order_however_they_are_cut(step: int) -> None:
    session = greeted((METADATA, 0, 13), step=step)
    session.request(MetadataRequest(topics=[]))
    session.request(MetadataRequest(topics=[]))
    answers = [MetadataResponse(brokers=[], topics=[], cluster_id=name) for name in ("a", "b")]
    data = answer(13, 1, answers[0]) + answer(13, 2, answers[1])
    assert feed(session, data, step) == answers
    assert session.pending == 0


def test_an_answer_to_another_request_is_corrupt() -> None:
    session = greeted((METADATA, 0, 13))
    session.request(MetadataRequest(topics=[]))
    with pytest.raises(Corrupt, match="response 7 where 1 was due"):
        feed(session, answer(13, 7, MetadataResponse(brokers=[], topics=[])))


def test_an_answer_to_nothing_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="no request"):
        feed(greeted(), answer(13, 1, MetadataResponse(brokers=[], topics=[])))


@pytest.mark.parametrize("size", [-1, 0, 3, (1 << 20) + 1, 0x7FFF_FFFF, 0x48545450])
def test_a_size_out_of_bounds_is_refused_before_it_is_allocated(size: int) -> None:
    session = new_session()
    session.greeting()
    with pytest.raises(Corrupt, match=f"response of {size} bytes"):
        feed(session, struct.pack(">i", size))


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_typed_error(data: bytes) -> None:
    session = greeted((METADATA, 0, 13))
    session.request(MetadataRequest(topics=[]))
    body = struct.pack(">i", 1) + data
    try:
        feed(session, struct.pack(">i", len(body)) + body)
    except KafkaError:
        pass
