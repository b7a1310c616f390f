"""A connection with a stream in memory: framing, order, bounds, backpressure."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from struct import pack
from typing import cast

import pytest

from barnabas.broker.net import connection as imported
from barnabas.broker.net.buffers import FIRST_SIZE, LARGE_SIZE, Buffers
from barnabas.broker.net.connection import (
    GATHER_MAX,
    REQUESTS_MAX,
    SMALL_SLICE,
    TURN_REPLIES_MAX,
    Connection,
)
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.frame import SLOW_FRAME_CROWDED_MS, SLOW_FRAME_MS
from barnabas.broker.net.lanes import Lanes
from barnabas.broker.net.listener_context import ListenerContext, Parts
from barnabas.model.errors import Corrupt
from barnabas.model.ports import Buffer, FileSlice
from tests.plain import flavours, from_source

FRAME_SIZE_MAX = 8 << 20


@pytest.fixture(
    autouse=True,
    params=flavours(from_source("barnabas.broker.net.connection"), imported),
)
def _flavour(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test twice."""
    monkeypatch.setitem(globals(), "Connection", request.param.Connection)


class Soon:
    """As much of an event loop as lanes need."""

    def __init__(self) -> None:
        self.due: deque[Callable[[], None]] = deque()
        self._now = 0.0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def time(self) -> float:
        self._now += 0.001
        return self._now


class MemoryStream:
    """Gives what was put into `incoming`, at most `chunk` bytes a time; takes up to `room`."""

    def __init__(self, chunk: int = 1 << 30, room: int = 1 << 30) -> None:
        self.peer = "203.0.113.7:4711"
        self.failure = ""
        self.incoming = bytearray()
        self.sent = bytearray()
        self.chunk = chunk
        self.room = room
        self.ended = False
        self.closed = False
        self.readable: Callable[[], None] | None = None
        self.writable: Callable[[], None] | None = None

    def receive_into(self, buffer: memoryview) -> int:
        count = min(self.chunk, len(buffer), len(self.incoming))
        if not count:
            return 0 if self.ended else -1
        buffer[:count] = self.incoming[:count]
        del self.incoming[:count]
        return count

    def send(self, parts: Sequence[Buffer], more: bool = False) -> int:
        data = b"".join(parts)[: self.room]
        self.sent += data
        self.room -= len(data)
        return len(data)

    def send_file(self, slice_: FileSlice, more: bool = False) -> int:
        data = slice_.file.read(slice_.position, min(slice_.length, self.room))
        if not data and self.room:
            raise OSError(0, "the file is shorter than the length in the reply")
        self.sent += data
        self.room -= len(data)
        return len(data)

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        self.readable = callback

    def watch_writable(self, callback: Callable[[], None] | None) -> None:
        self.writable = callback

    def close(self) -> None:
        self.closed = True

    def pump(self) -> None:
        """What an event loop does while there is something to do."""
        for _ in range(100_000):
            if self.closed:
                return
            if self.writable and self.room:
                self.writable()
            elif self.readable and (self.incoming or self.ended):
                self.readable()
            else:
                return
        raise AssertionError("the connection spins")


class World:
    """One connection, and a dispatcher that the test decides about."""

    def __init__(self, stream: MemoryStream, bytes_max: int = 64 << 20) -> None:
        self.stream = stream
        self.frames: list[bytes] = []
        self.answers: Callable[[Connection, bytes], Parts | DeferredReply[Parts] | None] = _echo
        self.reasons: list[str] = []
        self.failures: list[Exception] = []
        self.buffers = Buffers(bytes_max)
        self.soon = Soon()
        self.context = ListenerContext(
            self._dispatch,
            lambda _, reason: self.reasons.append(reason),
            self._failed,
            Lanes(cast(asyncio.AbstractEventLoop, self.soon), self.soon.time),
            self.buffers,
            FRAME_SIZE_MAX,
        )
        self.connection = Connection(stream, self.context)

    def _dispatch(
        self, connection: Connection, frame: memoryview
    ) -> Parts | DeferredReply[Parts] | None:
        self.frames.append(bytes(frame))
        return self.answers(connection, bytes(frame))

    def _failed(self, connection: Connection, error: Exception) -> None:
        self.failures.append(error)
        connection.close("failed")

    def receive(self, *frames: bytes) -> None:
        for frame in frames:
            self.stream.incoming += pack(">i", len(frame)) + frame
        self.pump()

    def pump(self) -> None:
        self.stream.pump()
        while self.soon.due:
            self.soon.due.popleft()()
            self.stream.pump()


def _echo(connection: Connection, frame: bytes) -> Parts:
    return [frame]


class MemoryFile:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes_read = 0

    def cached(self, position: int, length: int) -> bool:
        return True

    def read(self, position: int, length: int) -> bytes:
        self.bytes_read += length
        return self.data[position : position + length]


@pytest.mark.parametrize("chunk", [1, 3, 7, 100, 1 << 30])
def test_frames_come_out_whole_however_the_bytes_come_in(chunk: int) -> None:
    world = World(MemoryStream(chunk))
    frames = [b"a" * 8, b"b" * 300, b"c" * 8]
    world.receive(*frames)
    assert world.frames == frames
    assert world.stream.sent == b"".join(frames)
    assert world.buffers.bytes_out == 0


def test_a_frame_larger_than_one_buffer_is_put_together_in_growing_ones() -> None:
    world = World(MemoryStream(chunk=100_000))
    frame = bytes(range(256)) * (3 * FIRST_SIZE // 256) + b"end"
    world.receive(frame, b"small one")
    assert world.frames == [frame, b"small one"]
    assert world.buffers.bytes_out == 0


def test_an_announced_frame_holds_no_more_memory_than_has_come() -> None:
    world = World(MemoryStream())
    world.stream.incoming += pack(">i", FRAME_SIZE_MAX) + b"x"
    world.pump()
    assert world.buffers.bytes_out == FIRST_SIZE


def test_a_kept_large_buffer_is_handed_out_only_where_it_fits() -> None:
    buffers = Buffers(LARGE_SIZE + FIRST_SIZE)
    first = buffers.take(LARGE_SIZE)
    assert first is not None
    larger = buffers.grow(first, LARGE_SIZE)
    assert larger is not None
    buffers.give_back(larger)
    assert buffers.take(LARGE_SIZE) is larger
    buffers.give_back(larger)
    assert buffers.take(FIRST_SIZE) is first
    other = buffers.take(FIRST_SIZE)
    assert other is not None
    small = buffers.take(LARGE_SIZE)
    assert small is not None
    assert len(small) == FIRST_SIZE


@pytest.mark.parametrize("size", [-1, 0, 7, FRAME_SIZE_MAX + 1, 2**31 - 1])
def test_an_impossible_size_closes_the_connection_with_a_reason(size: int) -> None:
    world = World(MemoryStream())
    world.stream.incoming += pack(">i", size) + b"x" * 64
    world.pump()
    assert world.stream.closed
    assert str(size) in world.reasons[0]
    assert world.frames == []


def test_replies_leave_in_the_order_of_their_requests() -> None:
    world = World(MemoryStream())
    laters: list[DeferredReply[Parts]] = [DeferredReply(), DeferredReply()]
    answers: list[Parts | DeferredReply[Parts]] = [laters[0], [b"second"], laters[1], [b"fourth"]]
    world.answers = lambda *_: answers.pop(0)
    world.receive(*[b"request!"] * 4)
    assert world.stream.sent == b""
    laters[1].set([b"third"])
    assert world.stream.sent == b""
    laters[0].set([b"first"])
    assert world.stream.sent == b"firstsecondthirdfourth"


def test_a_request_without_an_answer_leaves_no_gap() -> None:
    world = World(MemoryStream())
    world.answers = lambda _, frame: None if frame == b"be quiet" else [frame]
    world.receive(b"be quiet", b"and talk", b"be quiet")
    assert world.stream.sent == b"and talk"


def test_a_held_connection_handles_nothing_until_it_is_released() -> None:
    world = World(MemoryStream(chunk=50))
    deferred: DeferredReply[Parts] = DeferredReply()

    def answer(connection: Connection, frame: bytes) -> Parts | DeferredReply[Parts]:
        if frame == b"the slow one":
            connection.hold()
            return deferred
        return [frame]

    world.answers = answer
    world.receive(b"the slow one", b"x" * 200, b"the last")
    assert world.frames == [b"the slow one"]
    assert world.stream.readable is None
    world.connection.release()
    deferred.set([b"done"])
    world.pump()
    assert world.stream.sent == b"done" + b"x" * 200 + b"the last"


def test_unanswered_requests_are_bounded_and_the_rest_wait() -> None:
    world = World(MemoryStream())
    laters: list[DeferredReply[Parts]] = []

    def answer(connection: Connection, frame: bytes) -> DeferredReply[Parts]:
        laters.append(DeferredReply())
        return laters[-1]

    world.answers = answer
    world.receive(*[b"request!"] * (REQUESTS_MAX + 10))
    assert len(laters) == REQUESTS_MAX
    assert world.stream.readable is None
    for deferred in laters[:]:
        deferred.set([b"."])
    world.pump()
    for deferred in laters[REQUESTS_MAX:]:
        deferred.set([b"."])
    assert world.stream.sent == b"." * (REQUESTS_MAX + 10)


def test_nothing_is_read_while_replies_cannot_leave() -> None:
    world = World(MemoryStream(room=10))
    world.receive(b"twelve bytes", b"two more coming")
    assert world.stream.sent == b"twelve byt"
    assert world.stream.readable is None
    world.stream.incoming += pack(">i", 8) + b"a third."
    world.stream.room = 1 << 20
    world.pump()
    assert world.stream.sent == b"twelve bytestwo more cominga third."


@pytest.mark.parametrize("size", [4, SMALL_SLICE, SMALL_SLICE + 1, 3 * SMALL_SLICE])
@pytest.mark.parametrize("room", [0, 1, 5, 6, 9, 10, 14, SMALL_SLICE + 3, 1 << 20])
def test_file_slices_leave_in_place_whatever_the_socket_takes(room: int, size: int) -> None:
    world = World(MemoryStream(room=room))
    file = MemoryFile(bytes(range(256)) * 256)
    head, tail = FileSlice(file, 2, size), FileSlice(file, 8, 2)  # type: ignore[arg-type]
    world.answers = lambda *_: [b"head:", head, b" ", tail, b"."]
    whole = b"head:" + file.data[2 : 2 + size] + b" " + file.data[8:10] + b"."
    world.receive(b"request!")
    assert world.stream.sent == whole[:room]
    for _ in range(len(whole) // 1000 + 1):
        world.stream.room = 1000
        world.pump()
    assert world.stream.sent == whole


def test_no_more_of_small_file_slices_is_read_than_is_about_to_leave() -> None:
    world = World(MemoryStream(room=10))
    file = MemoryFile(bytes(SMALL_SLICE))
    slices: Parts = [FileSlice(file, 0, SMALL_SLICE)] * 100  # type: ignore[arg-type]
    world.answers = lambda *_: slices.copy()
    world.receive(b"request!")
    for _ in range(10):
        world.stream.room = 10
        world.pump()
    assert file.bytes_read <= GATHER_MAX + SMALL_SLICE
    world.stream.room = 1 << 30
    world.pump()
    assert len(world.stream.sent) == file.bytes_read == 100 * SMALL_SLICE


@pytest.mark.parametrize("size", [10, SMALL_SLICE + 1])
def test_a_file_shorter_than_promised_ends_the_connection(size: int) -> None:
    world = World(MemoryStream())
    slice_ = FileSlice(MemoryFile(b"short"), 0, size)  # type: ignore[arg-type]
    world.answers = lambda *_: [b"head:", slice_, b"."]
    world.receive(b"request!")
    assert world.stream.closed
    assert "shorter" in world.reasons[0]


def test_a_peer_that_leaves_between_requests_leaves_in_good_order() -> None:
    world = World(MemoryStream())
    world.stream.ended = True
    world.pump()
    assert world.reasons == [""]


@pytest.mark.parametrize("part", [b"\0", pack(">i", 100), pack(">i", 100) + b"x" * 50])
def test_a_peer_that_leaves_in_a_request_is_said_so(part: bytes) -> None:
    world = World(MemoryStream())
    world.stream.incoming += part
    world.pump()
    world.stream.ended = True
    world.pump()
    assert world.reasons == ["the peer closed in the middle of a request"]
    assert world.buffers.bytes_out == 0


def test_a_request_that_makes_no_sense_closes_its_connection_with_the_reason() -> None:
    world = World(MemoryStream())

    def answer(connection: Connection, frame: bytes) -> Parts:
        raise Corrupt("no such thing")

    world.answers = answer
    world.receive(b"nonsense", b"more of it")
    assert len(world.frames) == 1
    assert world.reasons == ["CORRUPT_MESSAGE: no such thing"]


def test_a_fault_of_ours_costs_only_the_connection_it_happened_on() -> None:
    world = World(MemoryStream())

    def answer(connection: Connection, frame: bytes) -> Parts:
        raise ZeroDivisionError

    world.answers = answer
    world.receive(b"request!")
    assert len(world.failures) == 1
    assert world.stream.closed


def test_those_who_wait_are_told_when_the_connection_ends() -> None:
    world = World(MemoryStream())
    cancelled: list[bool] = []
    deferred: DeferredReply[Parts] = DeferredReply()
    deferred.cancelled = lambda: cancelled.append(True)
    world.answers = lambda *_: deferred
    world.receive(b"request!")
    world.stream.ended = True
    world.pump()
    assert cancelled == [True]
    deferred.set([b"too late"])
    assert world.stream.sent == b""


def test_large_frames_wait_for_room_and_go_on_when_there_is_some() -> None:
    first = World(MemoryStream(), bytes_max=FIRST_SIZE)
    second = World(MemoryStream(), bytes_max=FIRST_SIZE)
    second.context.buffers = first.buffers
    first.stream.incoming += pack(">i", 100_000) + b"a" * 10
    first.pump()
    second.receive(b"b" * 100_000)
    assert second.frames == []
    assert second.stream.readable is None
    first.stream.incoming += b"a" * 99_990
    first.pump()
    second.pump()
    assert second.frames == [b"b" * 100_000]


def test_a_frame_that_drips_is_too_slow_and_a_large_honest_one_is_not() -> None:
    world = World(MemoryStream())
    world.context.now_ms = 1000
    world.stream.incoming += pack(">i", 5 << 20) + b"x"
    world.pump()
    assert not world.connection.too_slow(31_000)
    assert world.connection.too_slow(31_001)
    world.stream.incoming += b"x" * (4 << 20)
    world.pump()
    assert not world.connection.too_slow(60_000)


def test_a_frame_that_drips_behind_a_request_that_waits_is_too_slow_as_well() -> None:
    world = World(MemoryStream())
    world.answers = lambda *_: DeferredReply()
    world.stream.incoming += pack(">i", 8) + b"a poll.." + pack(">i", 100_000) + b"x"
    world.pump()
    assert world.connection.waiting
    assert not world.connection.too_slow(SLOW_FRAME_MS)
    assert world.connection.too_slow(SLOW_FRAME_MS + 1)
    assert world.connection.too_slow(SLOW_FRAME_CROWDED_MS + 1, crowded=True)


def test_requests_that_wait_for_one_of_ours_are_not_too_slow() -> None:
    world = World(MemoryStream())

    def answer(connection: Connection, frame: bytes) -> DeferredReply[Parts]:
        connection.hold()
        return DeferredReply()

    world.answers = answer
    world.stream.incoming += pack(">i", 8) + b"at work." + pack(">i", 8) + b"nex"
    world.pump()
    assert not world.connection.too_slow(1 << 40)
    assert not world.connection.too_slow(1 << 40, crowded=True)


def test_a_frame_behind_replies_that_are_not_taken_holds_its_memory_until_it_is_wanted() -> None:
    world = World(MemoryStream(room=3))
    world.stream.incoming += pack(">i", 8) + b"a reply." + pack(">i", 100_000) + b"x"
    world.pump()
    assert not world.connection.too_slow(SLOW_FRAME_MS + 1)
    assert world.connection.too_slow(SLOW_FRAME_MS + 1, crowded=True)


@pytest.mark.parametrize("size", [100, SMALL_SLICE + 1])
def test_a_peer_is_active_only_while_it_takes_something_of_its_replies(size: int) -> None:
    world = World(MemoryStream(room=0))
    slice_ = FileSlice(MemoryFile(bytes(size)), 0, size)  # type: ignore[arg-type]
    deferred: DeferredReply[Parts] = DeferredReply()
    world.answers = lambda *_: deferred
    world.receive(b"request!")
    assert world.connection.waiting
    world.context.now_ms = 1000
    deferred.set([b"head:", slice_])
    assert not world.connection.waiting
    assert world.connection.active_ms == 1000
    for now_ms, room, active_ms in (
        (2000, 0, 1000),
        (3000, 7, 3000),
        (4000, 0, 3000),
        (5000, 1, 5000),
    ):
        world.context.now_ms = now_ms
        world.stream.room = room
        world.connection.turn()
        assert world.connection.active_ms == active_ms


def test_short_requests_for_long_replies_wait_until_these_have_left() -> None:
    reply = b"." * (TURN_REPLIES_MAX // 4)
    world = World(MemoryStream(room=0))
    world.answers = lambda *_: [reply]
    world.receive(*[b"request!"] * 1000)
    assert len(world.frames) == 4
    world.stream.room = 1 << 30
    world.pump()
    assert len(world.frames) == 1000
    assert len(world.stream.sent) == 1000 * len(reply)


def test_long_replies_behind_one_that_waits_are_bounded_too() -> None:
    reply = b"." * (TURN_REPLIES_MAX // 4)
    laters: list[DeferredReply[Parts]] = [DeferredReply(), DeferredReply()]
    long: list[Parts | DeferredReply[Parts]] = [[reply]] * 20
    answers = [laters[0], *long, laters[1], *long]
    world = World(MemoryStream())
    world.answers = lambda *_: answers.pop(0)
    world.receive(*[b"request!"] * len(answers))
    assert len(world.frames) == 5
    assert world.stream.readable is None
    laters[0].set([b"first"])
    world.pump()
    assert len(world.frames) == 26
    laters[1].set([b"second"])
    world.pump()
    assert not answers
    assert len(world.stream.sent) == 40 * len(reply) + len(b"firstsecond")


def test_honest_requests_before_a_broken_one_get_their_replies() -> None:
    world = World(MemoryStream())
    world.stream.incoming += pack(">i", 8) + b"request!" + pack(">i", -1)
    world.pump()
    assert world.stream.sent == b"request!"
    assert world.stream.closed
    assert "-1" in world.reasons[0]


def test_a_stalled_frame_goes_early_when_another_waits_for_its_memory() -> None:
    first = World(MemoryStream(), bytes_max=FIRST_SIZE)
    second = World(MemoryStream(), bytes_max=FIRST_SIZE)
    second.context.buffers = first.buffers
    first.stream.incoming += pack(">i", 100_000) + b"a" * 10
    first.pump()
    now_ms = SLOW_FRAME_CROWDED_MS + 1
    assert not first.buffers.crowded
    second.receive(b"b" * 100_000)
    assert first.buffers.crowded
    assert not first.connection.too_slow(now_ms)
    assert first.connection.too_slow(now_ms, crowded=True)
    assert not second.connection.too_slow(now_ms, crowded=True)
    first.connection.close("a request came in too slowly")
    second.pump()
    assert second.frames == [b"b" * 100_000]


def test_frames_that_all_need_more_memory_do_not_wait_for_each_other() -> None:
    worlds = [World(MemoryStream(), bytes_max=2 * FIRST_SIZE) for _ in range(2)]
    worlds[1].context.buffers = worlds[0].buffers
    frames = [bytes([index]) * (3 * FIRST_SIZE) for index in range(2)]
    for world, frame in zip(worlds, frames, strict=True):
        world.stream.incoming += pack(">i", len(frame)) + frame[:FIRST_SIZE]
        world.pump()
    for world, frame in zip(worlds, frames, strict=True):
        world.stream.incoming += frame[FIRST_SIZE:]
        world.pump()
    worlds[1].pump()
    assert [world.frames for world in worlds] == [[frames[0]], [frames[1]]]
    assert worlds[0].buffers.bytes_out == 0


def test_an_answer_that_another_connection_brings_is_sent_at_once_and_nothing_is_read() -> None:
    """Both use one receive buffer: reading here would overwrite requests that wait there."""
    waiting, other = World(MemoryStream()), World(MemoryStream())
    other.context.receive = waiting.context.receive
    deferred: DeferredReply[Parts] = DeferredReply()
    waiting.answers = lambda _, frame: deferred if frame == b"I wait!!" else [frame]
    waiting.receive(b"I wait!!")
    waiting.stream.incoming += pack(">i", 8) + b"overwrit"

    def answer(connection: Connection, frame: bytes) -> Parts:
        deferred.set([b"joined"])
        return [frame]

    other.answers = answer
    other.receive(b"request1", b"request2")
    assert waiting.stream.sent == b"joined"
    assert other.frames == [b"request1", b"request2"]
    waiting.pump()
    assert waiting.stream.sent == b"joinedoverwrit"


def test_an_answer_that_is_ready_when_it_is_given_leaves_in_its_place() -> None:
    world = World(MemoryStream())

    def answer(connection: Connection, frame: bytes) -> Parts | DeferredReply[Parts]:
        if frame == b"request2":
            deferred: DeferredReply[Parts] = DeferredReply()
            deferred.set([frame])
            return deferred
        return [frame]

    world.answers = answer
    world.receive(b"request1", b"request2", b"request3")
    assert world.stream.sent == b"request1request2request3"


def test_a_connection_held_twice_is_read_after_both_holds() -> None:
    """Two replies of a client over its quota, each with a time to wait."""
    world = World(MemoryStream())
    world.connection.hold()
    world.connection.hold()
    world.receive(b"a request")
    world.connection.resume()
    world.pump()
    assert world.frames == []
    assert world.stream.readable is None
    world.connection.resume()
    world.pump()
    assert world.frames == [b"a request"]
    assert world.stream.readable is not None


def test_replies_leave_while_a_connection_is_held() -> None:
    world = World(MemoryStream())
    deferred: DeferredReply[Parts] = DeferredReply()
    world.answers = lambda *_: deferred
    world.receive(b"a poll..")
    world.connection.hold()
    deferred.set([b"its reply"])
    assert world.stream.sent == b"its reply"
    assert world.stream.readable is None


def test_a_frame_that_a_held_connection_does_not_read_is_not_too_slow() -> None:
    """Unless memory is short: then it must not keep what others wait for."""
    world = World(MemoryStream())
    world.stream.incoming += pack(">i", 100_000) + b"x"
    world.pump()
    world.connection.hold()
    assert not world.connection.too_slow(SLOW_FRAME_MS + 1)
    assert world.connection.too_slow(SLOW_FRAME_CROWDED_MS + 1, crowded=True)
    world.context.now_ms = SLOW_FRAME_MS + 1
    world.connection.resume()
    world.stream.incoming += b"x" * 99_999
    world.pump()
    assert world.frames == [b"x" * 100_000]


def test_a_closed_connection_is_not_read_after_its_hold() -> None:
    world = World(MemoryStream())
    world.connection.hold()
    world.connection.close("")
    world.stream.incoming += pack(">i", 8) + b"too late"
    world.connection.resume()
    world.pump()
    assert world.frames == []
