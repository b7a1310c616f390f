# cython: annotation_typing=False, infer_types=False
"""What all connections of a listener share: where frames go, the order of turns, the memory.

Compiled beside connection.py, with the types in listener_context.pxd: a connection reads these
fields at every turn.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.net.buffers import Buffers, mapped
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.lanes import Lanes
from barnabas.model.ports import Buffer, FileSlice

if TYPE_CHECKING:
    from barnabas.broker.net.connection import Connection

RECEIVE_SIZE = 64 * 1024

Parts = list[Buffer | FileSlice]


def host_of(peer: str) -> str:
    """The address without the port, as access rules name it: an IPv4 client of an IPv6 socket has
    its IPv4 address."""
    return peer.rpartition(":")[0].removeprefix("::ffff:")


class ListenerContext:
    """One per listener. `receive` holds what a connection reads in one turn."""

    __slots__ = (
        "buffers", "closed", "dispatch", "failed", "frame_size_max", "lanes", "listener_name",
        "now_ms", "receive",
    )  # fmt: skip

    def __init__(
        self,
        dispatch: "Callable[[Connection, memoryview], Parts | DeferredReply[Parts] | None]",
        closed: "Callable[[Connection, str], None]",
        failed: "Callable[[Connection, Exception], None]",
        lanes: Lanes,
        buffers: Buffers,
        frame_size_max: int,
        listener_name: str = "",
        receive: memoryview | None = None,
    ) -> None:
        self.dispatch = dispatch
        self.closed = closed
        self.failed = failed
        self.lanes = lanes
        self.buffers = buffers
        self.frame_size_max = frame_size_max
        self.listener_name = listener_name
        self.receive = mapped(RECEIVE_SIZE) if receive is None else receive
        self.now_ms = 0  # coarse: housekeeping updates it

    def for_listener(self, name: str) -> "ListenerContext":
        """The same for another listener: its connections share turns and memory with ours."""
        return ListenerContext(
            self.dispatch,
            self.closed,
            self.failed,
            self.lanes,
            self.buffers,
            self.frame_size_max,
            name,
            self.receive,
        )
