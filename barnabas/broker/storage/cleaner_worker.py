"""The process that compacts logs, beside its broker: `python -m
barnabas.broker.storage.cleaner_worker`.

In: orders on standard input. Out: reports on standard output, `.cleaned` files on disk.
Always: it yields to the broker and ends with it: when its input ends, it stops immediately,
and the next start of a broker removes its files.
Why a process: docs/adr/0014-compaction-runs-in-its-own-process.md.
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress

from barnabas.broker.net.buffers import mapped
from barnabas.broker.storage.cleaner_protocol import (
    LENGTH,
    CompactedSegment,
    CompactionDone,
    CompactionOrder,
    CompactionStopped,
    Report,
    frame,
    length_of,
    read_order,
)
from barnabas.log.compaction.compaction import Compaction
from barnabas.model.errors import Corrupt, KafkaError
from barnabas.system.disk import SystemDisk

NICE = 19  # if there is no SCHED_IDLE
ORDERS = 0
REPORTS = 1


def main() -> None:
    # Ctrl-C is for the broker, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        yield_to_all()
    while (prefix := _read(LENGTH.size)) is not None:
        body = _read(length_of(prefix))
        if body is None:
            return
        _send(carry_out(read_order(body)))


def yield_to_all() -> None:
    """Use only CPU time that no other process needs. A process that wakes up on our core need not
    wait for the end of our time slice, as it would if we were only niced."""
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(NICE)


def carry_out(order: CompactionOrder) -> Report:
    """Parts are reported as they are done; the last report is returned."""
    try:
        pacer = RateLimiter(order.bytes_per_second)
        work = Compaction(SystemDisk(), order.job, os.urandom(16), pacer, mapped)
        work.map_keys()
        for group in work.groups():
            _send(CompactedSegment(work.clean(group)))
        return CompactionDone(work.end_offset, work.keys)
    except FileNotFoundError as error:
        return CompactionStopped(str(error), gone=True, damaged=False)
    except (KafkaError, OSError, MemoryError) as error:
        return CompactionStopped(str(error), gone=False, damaged=isinstance(error, Corrupt))


class RateLimiter:
    """Called with bytes read and written: keeps to a rate, and notices when the broker ends."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._bytes = 0
        self._started = time.monotonic()
        self._input = select.poll()
        self._input.register(ORDERS, select.POLLIN)

    def __call__(self, size: int) -> None:
        self._bytes += size
        ahead_s = self._bytes / self._rate - (time.monotonic() - self._started)
        # Nothing is sent during an order: any input is the end of input.
        if self._input.poll(max(0.0, ahead_s) * 1000):
            raise SystemExit(0)


def _read(size: int) -> bytes | None:
    """None at the end of input."""
    data = b""
    while len(data) < size:
        piece = os.read(ORDERS, size - len(data))
        if not piece:
            return None
        data += piece
    return data


def _send(report: Report) -> None:
    data = memoryview(frame(report))
    try:
        while data:
            data = data[os.write(REPORTS, data) :]
    except BrokenPipeError:
        raise SystemExit(0) from None


if __name__ == "__main__":
    main()
