"""A frame that takes several reads: it grows with what arrives, and waits for memory."""

from typing import Any

import pytest

from barnabas.broker.net import frame as imported
from barnabas.broker.net.buffers import FIRST_SIZE, LARGE_SIZE, Buffers
from barnabas.broker.net.frame import (
    NO_ROOM,
    NOTHING_ARRIVED,
    SLOW_FRAME_CROWDED_MS,
    SLOW_FRAME_MS,
    FrameInProgress,
    size_refusal,
)
from tests.broker.net.test_connection import MemoryStream
from tests.plain import flavours, from_source


@pytest.fixture(autouse=True, params=flavours(from_source("barnabas.broker.net.frame"), imported))
def _flavour(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test twice."""
    monkeypatch.setitem(globals(), "FrameInProgress", request.param.FrameInProgress)


def frame_of(buffers: Buffers, data: bytes, beginning: int = 10, now_ms: int = 0) -> Any:
    """With so many of its bytes."""
    buffer = buffers.take(len(data))
    assert buffer is not None
    frame = FrameInProgress(buffers, buffer, len(data), now_ms)
    frame.begin(memoryview(data)[:beginning])
    return frame


def test_a_refusal_names_the_size_and_the_remedy() -> None:
    assert size_refusal(7, 100) == (
        "request of 7 bytes: less than a request header; this is not Kafka's protocol"
    )
    assert "request of 101 bytes: socket.request.max.bytes allows 100;" in size_refusal(101, 100)


def test_a_frame_is_complete_with_its_last_byte() -> None:
    data = bytes(range(256)) * (3 * LARGE_SIZE // 256)
    frame = frame_of(Buffers(64 << 20), data)
    stream = MemoryStream(chunk=100_000)
    assert frame.receive(stream) == NOTHING_ARRIVED
    stream.incoming += data[10:-1]
    while stream.incoming:
        assert frame.receive(stream) > 0
        assert frame.complete() is None
    stream.incoming += data[-1:]
    assert frame.receive(stream) == 1
    assert frame.complete() == data


def test_a_peer_that_closes_is_seen() -> None:
    frame = frame_of(Buffers(64 << 20), bytes(100))
    stream = MemoryStream()
    stream.ended = True
    assert frame.receive(stream) == 0


def test_a_frame_without_room_waits_until_another_is_released() -> None:
    """Above the limit one frame may grow, so that somebody gets through."""
    buffers = Buffers(LARGE_SIZE + 2 * FIRST_SIZE)
    data = bytes(2 * LARGE_SIZE)
    first, above, waiting = (frame_of(buffers, data, FIRST_SIZE) for _ in range(3))
    stream = MemoryStream(chunk=1000)
    stream.incoming += data
    assert first.receive(stream) == above.receive(stream) == 1000
    assert waiting.receive(stream) == NO_ROOM
    above.release()
    assert waiting.receive(stream) == 1000


def test_a_frame_is_too_slow_when_it_takes_longer_than_its_bytes_need() -> None:
    frame = frame_of(Buffers(64 << 20), bytes(100_000), beginning=64_000, now_ms=5)
    assert not frame.is_too_slow(5 + SLOW_FRAME_MS + 1000, 0, False)
    assert frame.is_too_slow(5 + SLOW_FRAME_MS + 1001, 0, False)
    assert not frame.is_too_slow(5 + SLOW_FRAME_CROWDED_MS + 1000, 0, True)
    assert frame.is_too_slow(5 + SLOW_FRAME_CROWDED_MS + 1001, 0, True)
    assert frame.is_too_slow(5, SLOW_FRAME_CROWDED_MS + 1, True)
    assert not frame.is_too_slow(5, SLOW_FRAME_CROWDED_MS + 1, False)
