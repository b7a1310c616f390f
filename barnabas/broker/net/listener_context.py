# cython: annotation_typing=False, infer_types=False
"""What all connections of a listener share: where frames go, the order of turns, the memory.

Compiled beside connection.py, with the types in listener_context.pxd: a connection reads these
fields at every turn.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.net.buffers import Buffers, mapped
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.frame import FRAME_SIZE_MIN
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
        "buffers", "closed", "dispatch", "failed", "frame_size_max", "frame_size_min", "lanes",
        "listener_name", "now_ms", "receive",
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
        frame_size_min: int = FRAME_SIZE_MIN,
    ) -> None:
        self.dispatch = dispatch
        self.closed = closed
        self.failed = failed
        self.lanes = lanes
        self.buffers = buffers
        self.frame_size_max = frame_size_max
        self.frame_size_min = frame_size_min
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

    def with_dispatch(
        self,
        dispatch: "Callable[[Connection, memoryview], Parts | DeferredReply[Parts] | None]",
        closed: "Callable[[Connection, str], None] | None" = None,
        buffers: Buffers | None = None,
        frame_size_max: int | None = None,
        frame_size_min: int = FRAME_SIZE_MIN,
    ) -> "ListenerContext":
        """For connections of the same listener whose frames go elsewhere, such as logins.

        A connection may enter another context in the middle of a turn, so both share `receive`.
        """
        made = ListenerContext(
            dispatch,
            closed or self.closed,
            self.failed,
            self.lanes,
            buffers or self.buffers,
            self.frame_size_max if frame_size_max is None else frame_size_max,
            self.listener_name,
            self.receive,
            frame_size_min,
        )
        made.now_ms = self.now_ms
        return made
