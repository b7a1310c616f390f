# cython: annotation_typing=False, infer_types=False
"""One client's connection: frames in, replies out, in the order of their requests.

In: readiness of the stream. Out: frames to the dispatcher, replies to the stream.
Always: replies leave in request order; the memory of one connection is bounded (one frame in
progress, REQUESTS_MAX unanswered requests, no reading while replies are unsent, no further
request while they are many); a frame's bytes are valid only while it is handled.
Not here: what a request means (dispatch.py), which connection is next (lanes.py), what the
connections of a listener share (listener_context.py), frames that take several reads (frame.py).
Cython compiles this file with the types in connection.pxd; `COMPILED` says whether it has.
"""

from collections import deque
from struct import Struct
from typing import Any

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.frame import NO_ROOM, SLOW_FRAME_MS, FrameInProgress, size_refusal
from barnabas.broker.net.lanes import Lane
from barnabas.broker.net.listener_context import ListenerContext, Parts, host_of
from barnabas.model.errors import KafkaError
from barnabas.model.ports import Buffer, FileSlice, Stream
from barnabas.security.principal import ANONYMOUS

COMPILED = not __file__.endswith(".py")

REQUESTS_MAX = 256
SEND_PARTS_MAX = 256
SMALL_SLICE = 16 * 1024  # a smaller slice is read: cheaper than two more calls
GATHER_MAX = 64 * 1024  # bytes read from files before the socket has accepted them
TURN_REPLIES_MAX = 64 * 1024  # bytes of immediate replies, after which other connections are served
REPLY_COST = 256  # the minimum that a reply is counted as: short ones take time too
UNTAKEN_CROWDED_MS = 2_000  # while other connections wait for the files that unsent replies hold

_SIZE = Struct(">i")


class ReplySlot:
    """The position of one unanswered request in the order of replies."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: Parts | None = None


class Connection:
    """Reads frames, passes them to the dispatcher, writes replies; one turn at a time."""

    __slots__ = (
        "_busy", "_context", "_frame", "_kept", "_out", "_pending", "_reading", "_slots", "_stream",
        "_turning", "_unsent", "_wants_room", "_writing", "active_ms", "bytes_in", "bytes_out",
        "client", "client_id", "errors", "host", "lane", "last_error", "light", "listener", "login",
        "open", "peer", "principal", "queued", "requests",
    )  # fmt: skip

    def __init__(self, stream: Stream, context: ListenerContext) -> None:
        self._stream, self._context = stream, context
        self._frame: FrameInProgress | None = None
        self._kept = b""  # received but not handled: an incomplete size, or frames after a busy one
        self._out: Parts = []
        self._unsent = 0  # bytes of immediate replies since everything was last sent
        self._slots: deque[ReplySlot] = deque()
        self._pending: dict[DeferredReply[Parts], None] = {}
        self._busy = 0  # holds: a request that must finish first, or a client over its quota
        self._reading = self._writing = self.queued = self._turning = False
        self._wants_room = False  # for a frame; nothing is read until there is memory
        self.peer, self.host = stream.peer, host_of(stream.peer)
        self.listener = context.listener_name
        self.principal = ANONYMOUS  # until a login or a certificate
        self.client_id = self.last_error = self.client = ""  # client: what ApiVersions says
        self.login: Any = None  # a login in progress, or its result (broker/security/)
        self.lane = Lane.CONTROL
        self.requests = self.bytes_in = self.bytes_out = self.errors = 0  # errors: refused requests
        self.light = self.open = True
        self.active_ms = context.now_ms  # when bytes last arrived or left, or a reply became ready
        self._read_on()

    # Reading

    def turn(self) -> None:
        """Send unsent replies; then read once and handle what arrived."""
        if not self.open or (self._out and not self._flush()):
            return
        self.active_ms = self._context.now_ms
        self._turning = True
        self.light = self._frame is None
        try:
            if self._frame is not None:
                self._continue_frame()
            elif not self._busy:
                self._receive()
        except KafkaError as error:
            self._break_off(str(error))
            return
        except Exception as error:
            self._context.failed(self, error)
            return
        finally:
            self._turning = False
        if (not self._out or self._flush()) and self.open:
            self._go_on()

    def _go_on(self) -> None:
        """Everything was sent: read more, or first handle the requests that have arrived."""
        if self._busy or self._wants_room or self._is_full():
            self._read_off()
        elif len(self._kept) >= _SIZE.size:
            self._read_off()
            self._context.lanes.again(self)
        elif not self._reading:
            self._read_on()

    def _is_full(self) -> bool:
        """Whether it has the maximum of unanswered requests, or of replies queued after them."""
        return len(self._slots) >= REQUESTS_MAX or self._unsent >= TURN_REPLIES_MAX

    def _receive(self) -> None:
        receive, kept = self._context.receive, self._kept
        if kept:
            have = len(kept)
            receive[:have] = kept
            self._kept = b""
            if have >= _SIZE.size:  # frames that waited: handle them before reading more
                self._handle_frames(receive, have)
                return
            count = self._stream.receive_into(receive[have:])
            if count < 0:
                self._kept = kept
        else:
            have = 0
            count = self._stream.receive_into(receive)
        if count > 0:
            self._handle_frames(receive, have + count)
        elif count == 0:
            self.close("" if not have else "the peer closed in the middle of a request")

    def _handle_frames(self, received: memoryview, end: int) -> None:
        position = 0
        lane = self.lane
        while end - position >= 4:
            # A read full of short requests for long replies must not take seconds and gigabytes.
            if self._busy or self._is_full():
                break
            (size,) = _SIZE.unpack_from(received, position)
            start = position + 4
            if size < self._context.frame_size_min or size > self._context.frame_size_max:
                limit, is_login = self._context.frame_size_max, not self._context.frame_size_min
                self._break_off(size_refusal(size, limit, is_login))
                return
            position = start + size
            if position > end:
                self._start_frame(size, received[start:end])
                return
            self._handle(received[start:position])
            if not self.open:
                return
            if self.lane is not lane:
                # A new connection has its first turn as a control connection. If it turns out to
                # carry data, the rest of its requests wait in the data lane.
                break
        if position < end and self.open:
            self._kept = bytes(received[position:end])

    def _start_frame(self, size: int, beginning: memoryview) -> None:
        buffers = self._context.buffers
        buffer = buffers.take(size)
        if buffer is None:
            self._kept = _SIZE.pack(size) + beginning
            self._wait_for_room()
            return
        self._frame = frame = FrameInProgress(buffers, buffer, size, self._context.now_ms)
        frame.begin(beginning)
        self.light = False
        self._continue_frame()  # the rest of it has often arrived already

    def _continue_frame(self) -> None:
        frame = self._frame
        assert frame is not None
        count = frame.receive(self._stream)
        if count == NO_ROOM:
            self._wait_for_room()
        elif count == 0:
            self.close("the peer closed in the middle of a request")
        elif count > 0 and (whole := frame.complete()) is not None:
            self._frame = None
            try:
                self._handle(whole)
            finally:
                frame.release()

    def _wait_for_room(self) -> None:
        if not self._wants_room:
            self._wants_room = True
            self._read_off()
            self._context.buffers.when_room(self._room)

    def _room(self) -> None:
        self._wants_room = False
        self._read_again()

    def _read_again(self) -> None:
        if self._frame is not None:
            self._frame.started_ms = self._context.now_ms  # the wait was not the peer's fault
        if self.open and not self._busy:
            self._read_on()
            self._context.lanes.again(self)

    def _handle(self, frame: memoryview) -> None:
        self.requests += 1
        self.bytes_in += len(frame)
        answer = self._context.dispatch(self, frame)
        if answer is None:
            return
        if isinstance(answer, list):
            first = answer[0]
            if not isinstance(first, FileSlice):
                self._unsent += len(first) + REPLY_COST
            if len(answer) > 1:  # slices of files take no memory, but time to find and to send
                for part in answer:
                    if type(part) is FileSlice:
                        self._unsent += part.length
            if not self._slots:
                self._out += answer
                return
            slot = ReplySlot()
            slot.parts = answer
            self._slots.append(slot)
            return
        self._wait_for(answer)

    def _wait_for(self, answer: DeferredReply[Parts]) -> None:
        slot = ReplySlot()
        self._slots.append(slot)
        self._pending[answer] = None
        answer.then(lambda parts, deferred=answer: self._answered(deferred, slot, parts))  # type: ignore[misc]

    def enter(self, context: ListenerContext) -> None:
        """The next frames go where this context sends them: the connection has logged in."""
        self._context = context

    def hold(self) -> None:
        """Handle no further request until `release`, or `resume` if no reply follows."""
        self._busy += 1

    def release(self) -> None:
        self._busy -= 1

    def resume(self) -> None:
        self._busy -= 1
        self._read_again()

    # Replying

    def _answered(self, deferred: DeferredReply[Parts], slot: ReplySlot, parts: Parts) -> None:
        self._pending.pop(deferred, None)
        if not self.open:
            return
        slot.parts = parts
        slots = self._slots
        if not self._out:
            self.active_ms = self._context.now_ms
        while slots and slots[0].parts is not None:
            self._out += slots.popleft().parts or ()
        # Sent now, because the client may wait for it. Reading waits for a turn of its own: this
        # may be the middle of another connection's turn, and they share the receive buffer.
        if not self._turning and (not self._out or self._flush()) and self.open:
            self._go_on()

    def _flush(self) -> bool:
        """True when everything was sent; otherwise the stream is watched until it accepts more."""
        out, stream = self._out, self._stream
        done = count = 0
        try:
            while done < len(out):
                part = out[done]
                if type(part) is FileSlice and part.length > SMALL_SLICE:
                    self.light = False
                    count = stream.send_file(part, more=done + 1 < len(out))
                    self.bytes_out += count
                    if count == part.length:
                        done += 1
                        continue
                    if count:
                        out[done] = FileSlice(part.file, part.position + count, part.length - count)
                        self.active_ms = self._context.now_ms
                        continue
                    break
                end = self._gather(done)
                run: list[Buffer] = out[done:end]  # type: ignore[assignment]
                count = stream.send(run, more=end < len(out))
                self.bytes_out += count
                for part in run:
                    if count < len(part):
                        break
                    count -= len(part)
                    done += 1
                if done < end:
                    if count:
                        out[done] = memoryview(out[done])[count:]  # type: ignore[arg-type]
                    break
        except OSError as error:
            self.close(f"sending failed: {error.strerror or error}")
            return False
        del out[:done]
        if out:
            if done or count:
                self.active_ms = self._context.now_ms
            if not self._writing:
                self._writing = True
                self._read_off()
                stream.watch_writable(self._ready)
            return False
        if not self._slots:
            self._unsent = 0
        if self._writing:
            self._writing = False
            stream.watch_writable(None)
            self._read_on()
        return True

    def _gather(self, start: int) -> int:
        """The end of the parts that can be sent in one call; small slices are read for it."""
        out = self._out
        end = min(len(out), start + SEND_PARTS_MAX)
        gathered = 0
        for index in range(start, end):
            part = out[index]
            if type(part) is FileSlice:
                if part.length > SMALL_SLICE or gathered >= GATHER_MAX:
                    return index
                data = part.file.read(part.position, part.length)
                if len(data) < part.length:
                    raise OSError(0, "the file is shorter than the length in the reply")
                out[index] = part = data
            gathered += len(part)  # type: ignore[arg-type]
        return end

    # Readiness

    def _ready(self) -> None:
        self._context.lanes.ready(self)

    def _read_on(self) -> None:
        if not (self._reading or self._writing or self._busy or self._wants_room):
            self._reading = True
            self._stream.watch_readable(self._ready)

    def _read_off(self) -> None:
        if self._reading:
            self._reading = False
            self._stream.watch_readable(None)

    # Ending

    @property
    def waiting(self) -> bool:
        """Whether a request waits for the broker, and not for its peer to read replies."""
        return bool(self._slots) and not self._out

    def holds_files(self, now_ms: int) -> bool:
        """Whether replies that the peer has not read for a while keep files open."""
        if now_ms - self.active_ms <= UNTAKEN_CROWDED_MS:
            return False
        waiting = [slot.parts for slot in self._slots if slot.parts is not None]
        return any(type(part) is FileSlice for parts in (self._out, *waiting) for part in parts)

    def too_slow(self, now_ms: int, crowded: bool = False) -> bool:
        """Whether the peer sends a request too slowly (frame.py says how slowly that is)."""
        silent_ms = now_ms - self.active_ms
        if self._frame is None:
            # Complete requests that the broker has not handled yet are not the peer's fault.
            return bool(self._kept) and self._reading and silent_ms > SLOW_FRAME_MS
        if self._wants_room or ((self._writing or self._busy) and not crowded):
            # A peer that reads its replies slowly is not read from: see `waiting`.
            return False
        return self._frame.is_too_slow(now_ms, silent_ms, crowded)

    def _break_off(self, reason: str) -> None:
        """The requests before the bad one were valid: send their replies first."""
        if self._out and not self._writing:
            self._flush()
        self.close(reason)

    def close(self, reason: str) -> None:
        """`reason` is empty when the peer closed the connection properly."""
        if not self.open:
            return
        self.open = False
        self._stream.close()
        if self._frame is not None:
            frame, self._frame = self._frame, None
            frame.release()
        pending, self._pending = self._pending, {}
        for deferred in pending:
            deferred.abandon()
        self._slots.clear()
        self._out.clear()
        self._kept = b""
        self._context.closed(self, reason)
