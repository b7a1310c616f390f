"""The messages between a broker and its compaction worker, over the worker's standard streams.

In: messages. Out: frames of a length and JSON, and back; each is checked against its type.
Broker to worker: one Order at a time. Worker to broker: a Part for each new segment, then Done or
Stopped. The end of its input ends the worker, also in the middle of an order.
"""

from struct import Struct as Layout

import msgspec

from barnabas.log.compaction.job import CleanedSegment, CompactionJob

FRAME_SIZE_MAX = 64 << 20  # an order names every active producer of a partition
LENGTH = Layout(">I")


class CompactionOrder(msgspec.Struct, frozen=True):
    """Compact one log."""

    job: CompactionJob
    bytes_per_second: float


class CompactedSegment(msgspec.Struct, frozen=True, tag="part"):
    """A new segment is written and synced."""

    cleaned: CleanedSegment


class CompactionDone(msgspec.Struct, frozen=True, tag="done"):
    """All of it. The log is compacted up to `end_offset`."""

    end_offset: int
    keys: int


class CompactionStopped(msgspec.Struct, frozen=True, tag="stopped"):
    """Not finished: `gone` says that files did not exist any more, so the work is discarded."""

    reason: str
    gone: bool
    damaged: bool


Report = CompactedSegment | CompactionDone | CompactionStopped
_orders = msgspec.json.Decoder(CompactionOrder)
_reports: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


def frame(message: CompactionOrder | Report) -> bytes:
    body = msgspec.json.encode(message)
    return LENGTH.pack(len(body)) + body


def length_of(prefix: bytes) -> int:
    """Raises ValueError for a length that is never sent."""
    length: int = LENGTH.unpack(prefix)[0]
    if length > FRAME_SIZE_MAX:
        raise ValueError(f"a frame of {length} bytes, the limit is {FRAME_SIZE_MAX}")
    return length


def read_order(body: bytes) -> CompactionOrder:
    return _orders.decode(body)


def read_report(body: bytes) -> Report:
    return _reports.decode(body)
