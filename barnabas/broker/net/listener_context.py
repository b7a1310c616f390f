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


class ListenerContext:
    """One per listener. `receive` holds what a connection reads in one turn."""

    __slots__ = (
        "buffers", "closed", "dispatch", "failed", "frame_size_max", "lanes", "now_ms", "receive",
    )  # fmt: skip

    def __init__(
        self,
        dispatch: "Callable[[Connection, memoryview], Parts | DeferredReply[Parts] | None]",
        closed: "Callable[[Connection, str], None]",
        failed: "Callable[[Connection, Exception], None]",
        lanes: Lanes,
        buffers: Buffers,
        frame_size_max: int,
    ) -> None:
        self.dispatch = dispatch
        self.closed = closed
        self.failed = failed
        self.lanes = lanes
        self.buffers = buffers
        self.frame_size_max = frame_size_max
        self.receive = mapped(RECEIVE_SIZE)
        self.now_ms = 0  # coarse: housekeeping updates it
