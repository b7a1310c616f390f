"""Doors in front of processes, and cuts between them: a network that a test can take apart.

A door is a port that leads to a process. Who comes through it is known by the door (a process has
one of its own to ZooKeeper), or by the client id of the first request (brokers to each other).
Always: what a cut holds back is kept, as TCP would send it again; when the cut is healed it
arrives, late, or the connection breaks, as the test wants. No bytes are lost within a connection.
"""

import asyncio
import struct
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from barnabas.broker.cluster_member import PEER
from tests.waiting import WAIT_S

CLIENT = "client"
_PIECE = 65_536
_HEADER = struct.Struct(">ihhih")  # size, key, version, correlation, length of the client id


class Link:
    """One connection, through a door."""

    def __init__(
        self, door: "Door", caller: asyncio.StreamWriter, host: asyncio.StreamWriter
    ) -> None:
        self.door = door
        self.caller_name = door.caller or CLIENT
        self._writers = (caller, host)

    def abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


class Door:
    """`to` names the process behind it; `caller` the process that uses it, if it is known."""

    def __init__(self, network: "Network", to: str, target: int, caller: str = "") -> None:
        self.to = to
        self.caller = caller
        self.port = 0
        self._network = network
        self._target = target
        self._server: asyncio.Server | None = None

    async def open(self, port: int) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    def shut(self) -> None:
        """Nobody new is let in."""
        if self._server is not None:
            for listening in self._server.sockets:
                self._server.get_loop().remove_reader(listening.fileno())

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._network.closed:
            writer.transport.abort()
            return
        with self._network.visit():
            await self._carry_both(reader, writer)

    async def _carry_both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, host = await asyncio.open_connection("127.0.0.1", self._target)
        except (OSError, asyncio.CancelledError):  # nobody there, or the network is closed
            writer.transport.abort()
            return
        link = Link(self, writer, host)
        self._network.links.add(link)
        ways = [self._carry(reader, host, link, True), self._carry(there, writer, link, False)]
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            with suppress(asyncio.CancelledError):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            link.abort()
            self._network.links.discard(link)

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        link: Link,
        inward: bool,
    ) -> None:
        first = inward and not self.caller
        with suppress(OSError):
            while piece := await reader.read(_PIECE):
                if first:
                    while (name := _caller(piece)) is None:
                        more = await reader.read(_PIECE)
                        if not more:
                            return
                        piece += more
                    link.caller_name = name
                    first = False
                ends = (link.caller_name, self.to)
                await self._network.pass_(ends if inward else ends[::-1])
                writer.write(piece)
                await writer.drain()


class Network:
    """All doors, on a loop in a thread of its own. Calls are from other threads."""

    def __init__(self) -> None:
        self.links: set[Link] = set()
        self.closed = False
        self._visits: set[asyncio.Task[Any] | None] = set()
        self._cuts: set[tuple[str, str]] = set()
        self._healed = asyncio.Event()
        self._doors: list[Door] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()

    def door(self, to: str, target: int, *, caller: str = "", port: int = 0) -> Door:
        door = Door(self, to, target, caller)
        self._call(door.open(port))
        self._doors.append(door)
        return door

    def cut(self, *ways: tuple[str, str]) -> None:
        """Nothing passes from the first to the second of each any more."""
        self._call(self._change(add=ways))

    def heal(self, *, breaking: bool = False) -> None:
        """Everything passes again; what was held back arrives, or its connections break."""
        self._call(self._change(breaking=breaking))

    async def _change(self, add: tuple[tuple[str, str], ...] = (), breaking: bool = False) -> None:
        if add:
            self._cuts.update(add)
            return
        if breaking:
            for link in list(self.links):
                ends = (link.caller_name, link.door.to)
                if ends in self._cuts or ends[::-1] in self._cuts:
                    link.abort()
        self._cuts.clear()
        self._healed.set()
        self._healed = asyncio.Event()

    async def pass_(self, way: tuple[str, str]) -> None:
        while way in self._cuts:
            await self._healed.wait()

    @contextmanager
    def visit(self) -> Iterator[None]:
        """The task that runs this is cancelled when the network closes."""
        task = asyncio.current_task()
        self._visits.add(task)
        try:
            yield
        finally:
            self._visits.discard(task)

    def close(self) -> None:
        async def end() -> None:
            self.closed = True
            for door in self._doors:
                door.shut()
            for task in self._visits:
                if task is not None:
                    task.cancel()
            # Who was only just let in is not cancelled, for nobody would close its socket.
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)
            # Last: a server that is closed loses, unclosed, whom it has accepted and not served.
            for door in self._doors:
                door.close()

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)


def _caller(piece: bytes) -> str | None:
    """Whose first request this is; None: too little of it has come."""
    if len(piece) < _HEADER.size:
        return None
    length = _HEADER.unpack_from(piece)[4]
    if length <= 0:
        return CLIENT
    if len(piece) < _HEADER.size + length:
        return None
    name = piece[_HEADER.size : _HEADER.size + length].decode(errors="replace")
    return f"broker-{name.removeprefix(PEER)}" if name.startswith(PEER) else CLIENT
