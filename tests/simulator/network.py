"""A network in memory behind the Network port: delays, cuts in one direction, resets.

In: streams of processes that live on virtual loops. Out: the same bytes, later.
Always: within a connection nothing is lost, doubled or out of order, as with TCP; between
connections anything may overtake anything. What is sent across a cut waits: it arrives after
the cut has healed, whatever has become of its sender by then, or its connection is reset. Only a
sender that aborts takes back what waits: the kernel of its machine has not sent it yet.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from math import log
from random import Random
from typing import NamedTuple

from barnabas.config.kinds import Address
from barnabas.model.ports import Buffer, FileSlice, Stream
from tests.simulator.loop import Schedule, VirtualLoop

WINDOW_BYTES = 256 * 1024
RESET = None  # arrives in place of bytes
Arrival = bytes | None


class Link(NamedTuple):
    source: str
    target: str


class End:
    """One end of a connection: a Stream."""

    def __init__(self, network: "Cables", loop: VirtualLoop, here: str, there: str) -> None:
        self.here = here
        self.there = there
        self.peer = f"{there}:1"
        self.loop = loop
        self.other: End = self
        self.closed = False
        self.broken = False
        self._network = network
        self.failure = ""
        self._inbox = bytearray()
        self._over = False  # the peer has closed, behind what is in the inbox
        self._on_readable: Callable[[], None] | None = None
        self._on_writable: Callable[[], None] | None = None
        self._reading = False
        self._writing = False
        self._under_way: list[Arrival] = []
        self._arrives_us = 0
        self._stuck = False
        self.unread = 0  # bytes that the other end has not received yet

    # --- the port ---

    def receive_into(self, buffer: memoryview) -> int:
        if self.broken:
            return 0
        inbox = self._inbox
        count = len(inbox)
        if not count:
            return 0 if self._over else -1
        if count <= len(buffer):
            buffer[:count] = inbox
            inbox.clear()
        else:
            count = len(buffer)
            buffer[:] = inbox[:count]
            del inbox[:count]
        other = self.other
        other.unread -= count
        if other._on_writable is not None:
            other._tell_writer()
        return count

    def send(self, parts: Sequence[Buffer], more: bool = False) -> int:
        self._check_open()
        data = b"".join(parts)
        room = WINDOW_BYTES - self.unread
        if self._network.chance() < self._network.partial and len(data) > 1:
            room = min(room, self._network.rng.randrange(1, len(data)))
        taken = data[:room] if room < len(data) else data
        if taken:
            self.unread += len(taken)
            self._post(taken)
        return len(taken)

    def send_file(self, slice_: FileSlice, more: bool = False) -> int:
        return self.send([slice_.file.read(slice_.position, slice_.length)])

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        self._on_readable = callback
        self._tell_reader()

    def watch_writable(self, callback: Callable[[], None] | None) -> None:
        self._on_writable = callback
        self._tell_writer()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._on_readable = self._on_writable = None
        if not self.broken:
            self._post(b"")
        self._network.forget(self)

    def abort(self) -> None:
        """Close with a reset, and without what waits for the link."""
        if self.closed:
            return
        self.closed = True
        self._on_readable = self._on_writable = None
        if not self.broken:
            if self._stuck:
                self._under_way.clear()
            self._post(RESET)
        self._network.forget(self)

    # --- bytes on their way ---

    def _check_open(self) -> None:
        if self.broken or self.closed:
            raise ConnectionResetError(104, "connection reset by the simulated network")

    def _post(self, what: Arrival) -> None:
        network = self._network
        self._under_way.append(what)
        if network._cuts and network.is_cut(self.here, self.there):
            self._stuck = True
        if self._stuck:
            return
        schedule = network.schedule
        arrives = schedule.now_us + network.delay_us(self.here, self.there)
        self._arrives_us = max(self._arrives_us, arrives)
        schedule.at(self._arrives_us, self._arrive)

    def _arrive(self) -> None:
        """The oldest that is under way; if the link was cut meanwhile, all that follows waits."""
        network = self._network
        if network._cuts and network.is_cut(self.here, self.there):
            self._stuck = True
        if self._stuck or not self._under_way:
            return
        self.other._receive(self._under_way.pop(0))

    def go_on(self, rng: Random) -> None:
        """The link is whole again."""
        if not self._stuck:
            return
        self._stuck = False
        waiting, self._under_way = self._under_way, []
        self._arrives_us = 0
        if rng.random() < 0.3 and None not in waiting:
            waiting = [RESET]  # the kernel gave up meanwhile
            self.break_()
        for each in waiting:
            self._post(each)

    def reset(self) -> None:
        """Broken from here on; the other end hears of it, if anything can reach it."""
        if not self.broken and not self.closed:
            self.break_()
        self._post(RESET)

    def break_(self) -> None:
        self.broken = True
        self._inbox.clear()
        self._tell_reader()
        self._tell_writer()

    def _receive(self, what: Arrival) -> None:
        if self.closed or self.broken or not self.loop.alive:
            if what:  # nobody is there to take it
                self.other.unread -= len(what)
                if not self.other.broken and not self.other.closed and self.loop.alive:
                    self._post(RESET)
            return
        if what is RESET:
            self.break_()
        elif not what:
            self._over = True
        else:
            self._inbox += what
        self._tell_reader()

    # --- readiness, told again and again while it lasts ---

    def _tell_reader(self) -> None:
        if (
            self._on_readable is not None
            and not self._reading
            and (self._inbox or self._over or self.broken)
        ):
            self._reading = True
            self.loop.call_soon(self._readable)

    def _readable(self) -> None:
        self._reading = False
        callback = self._on_readable
        if callback is not None and (self._inbox or self._over or self.broken):
            callback()
            if self._inbox or self._over or self.broken:
                self._tell_reader()

    def _tell_writer(self) -> None:
        if self._on_writable is None or self._writing:
            return
        if self.unread < WINDOW_BYTES or self.broken:
            self._writing = True
            self.loop.call_soon(self._writable)

    def _writable(self) -> None:
        self._writing = False
        callback = self._on_writable
        if callback is not None and (self.unread < WINDOW_BYTES or self.broken):
            callback()
            self._tell_writer()


class Socket:
    """An End with the calls of a socket that the client's driver uses."""

    buffered = False

    def __init__(self, end: End, number: int) -> None:
        self.end = end
        self._number = number
        self._aborts = False

    def fileno(self) -> int:
        return self._number

    def getpeername(self) -> tuple[str, int]:
        host, _, port = self.end.peer.rpartition(":")
        return host, int(port)

    def recv_into(self, buffer: memoryview) -> int:
        if self.end.broken:
            raise ConnectionResetError(104, "connection reset by the simulated network")
        count = self.end.receive_into(buffer)
        if count < 0:
            raise BlockingIOError
        return count

    def sendmsg(self, parts: Sequence[Buffer]) -> int:
        count = self.end.send(parts)
        if not count and any(parts):
            raise BlockingIOError
        return count

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_LINGER)
        on, seconds = struct.unpack("ii", value)
        self._aborts = bool(on) and not seconds

    def close(self) -> None:
        if self._aborts:
            self.end.abort()
        else:
            self.end.close()


class Listener:
    """An open listener of one process."""

    def __init__(
        self,
        network: "Cables",
        host: str,
        port: int,
        loop: VirtualLoop,
        accepted: Callable[[Stream], None],
    ) -> None:
        self.host = host
        self.port = port
        self.loop = loop
        self.accepted = accepted
        self._network = network

    def pause(self) -> None:
        """No broker here limits how many connections are created."""

    def resume(self) -> None:
        """It never pauses."""

    def close(self) -> None:
        if self._network.listeners.get((self.host, self.port)) is self:
            del self._network.listeners[self.host, self.port]


class Cables:
    """All connections, and what is wrong with the cables. A host is a process's name."""

    def __init__(self, schedule: Schedule, rng: Random) -> None:
        self.schedule = schedule
        self.rng = rng
        self.chance = rng.random
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.partial = 0.01  # how often a socket takes only a part
        self.delay_ms = 0.3  # about
        self._slow: dict[Link, float] = {}
        self._cuts: dict[Link, None] = {}
        self._ends: dict[End, None] = {}
        self._connecting: list[Callable[[], None]] = []
        self._sockets = 1000

    def door(self, loop: VirtualLoop, host: str) -> "HostNetwork":
        return HostNetwork(self, loop, host)

    # --- faults ---

    def cut(self, source: str, target: str) -> None:
        self._cuts[Link(source, target)] = None

    def is_cut(self, source: str, target: str) -> bool:
        return bool(self._cuts) and (source, target) in self._cuts

    @property
    def cuts(self) -> list[Link]:
        return list(self._cuts)

    def mend(self, source: str, target: str) -> None:
        if self._cuts.pop(Link(source, target), 0) is None:
            for end in tuple(self._ends):
                if end.here == source and end.there == target:
                    end.go_on(self.rng)
            connecting, self._connecting = self._connecting, []
            for again in connecting:
                again()

    def slow(self, source: str, target: str, factor: float) -> None:
        self._slow[Link(source, target)] = factor

    def heal(self) -> None:
        self._slow.clear()
        for link in self.cuts:
            self.mend(*link)

    def reset_some(self, count: int) -> list[Link]:
        """Connections that end without a word."""
        alive = [end for end in self._ends if not end.broken and not end.closed]
        chosen = self.rng.sample(alive, min(count, len(alive)))
        for end in chosen:
            end.reset()
        return [Link(end.here, end.there) for end in chosen]

    def gone(self, host: str) -> None:
        """The process died: its kernel tells the others, if it can."""
        for key in [key for key, each in self.listeners.items() if each.host == host]:
            del self.listeners[key]
        for end in tuple(self._ends):
            if end.here == host:
                end.reset()
                end.closed = True
                self.forget(end)

    # --- connections ---

    def delay_us(self, source: str, target: str) -> int:
        if source == target:
            return 10
        # As Random.expovariate: this is called for each message.
        delay = -log(1.0 - self.chance()) / (1 / self.delay_ms) * 1000
        if self._slow:
            delay *= self._slow.get(Link(source, target), 1.0)
        return int(delay) + 30

    def forget(self, end: End) -> None:
        """Once both are closed nothing can happen to them."""
        if end.closed and end.other.closed and not end._under_way and not end.other._under_way:
            self._ends.pop(end, None)
            self._ends.pop(end.other, None)

    def open(self, loop: VirtualLoop, host: str, address: Address) -> "asyncio.Future[End]":
        """A connection to the process that listens there, when the network lets it through."""
        future: asyncio.Future[End] = loop.create_future()
        there = address.host

        def arrive() -> None:
            if not loop.alive or future.done():
                return
            if self.is_cut(host, there) or self.is_cut(there, host):
                self._connecting.append(arrive)
                return
            listener = self.listeners.get((there, address.port))
            if listener is None:
                error = ConnectionRefusedError(111, "refused by the simulated network")
                self.schedule.after(self.delay_us(there, host), lambda: fail(error))
                return
            mine = End(self, loop, host, there)
            theirs = End(self, listener.loop, there, host)
            mine.other, theirs.other = theirs, mine
            self._ends[mine] = self._ends[theirs] = None
            listener.loop.call_soon(listener.accepted, theirs)
            self.schedule.after(self.delay_us(there, host), lambda: succeed(mine))

        def fail(error: OSError) -> None:
            if loop.alive:
                loop.call_soon(_refuse, future, error)

        def succeed(end: End) -> None:
            if not loop.alive:
                return
            if self.is_cut(there, host):
                self._connecting.append(lambda: succeed(end))
                return
            loop.call_soon(lambda: end.close() if future.done() else future.set_result(end))

        self.schedule.after(self.delay_us(host, there), arrive)
        return future

    async def open_socket(self, loop: VirtualLoop, host: str, address: Address) -> Socket:
        """For the client's driver."""
        end = await self.open(loop, host, address)
        self._sockets += 1
        opened = Socket(end, self._sockets)
        loop.sockets[self._sockets] = opened
        return opened


def _refuse(future: "asyncio.Future[End]", error: OSError) -> None:
    if not future.done():
        future.set_exception(error)


class HostNetwork:
    """The Network port of one process."""

    def __init__(self, network: Cables, loop: VirtualLoop, host: str) -> None:
        self._network = network
        self._loop = loop
        self._host = host

    def listen(
        self, host: str, port: int, accepted: Callable[[Stream], None], near: bool = True
    ) -> Listener:
        if (self._host, port) in self._network.listeners:
            raise OSError(98, f"cannot listen on {self._host}:{port}: address in use")
        listener = Listener(self._network, self._host, port, self._loop, accepted)
        self._network.listeners[self._host, port] = listener
        return listener

    async def connect(self, host: str, port: int, near: bool = True) -> Stream:
        return await self._network.open(self._loop, self._host, Address(host, port))
