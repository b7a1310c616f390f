"""Starts the compaction worker when there is work, communicates with it, and ends it.

In: orders. Out: reports, as they arrive; Stopped when the worker ends early.
Always: one worker at most; none while there is nothing to do.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec

from barnabas.broker.storage.cleaner_protocol import (
    LENGTH,
    CompactionDone,
    CompactionOrder,
    CompactionStopped,
    Report,
    frame,
    length_of,
    read_report,
)

MODULE = "barnabas.broker.storage.cleaner_worker"
ROOT = Path(__file__).parents[3]  # where the package is, installed or not


class CleanerProcess:
    """The worker process, if it runs."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def carry_out(self, order: CompactionOrder) -> AsyncIterator[Report]:
        """The last report is Done or Stopped, whatever happens to the worker."""
        try:
            process = await self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(frame(order))
            await process.stdin.drain()
            while True:
                length = length_of(await process.stdout.readexactly(LENGTH.size))
                report = read_report(await process.stdout.readexactly(length))
                yield report
                if isinstance(report, CompactionDone | CompactionStopped):
                    return
        except asyncio.IncompleteReadError:
            reason = "the compaction worker ended"
        except (OSError, ValueError, msgspec.DecodeError) as error:
            reason = f"the compaction worker failed: {error}"
        await self.end()
        yield CompactionStopped(reason, gone=False, damaged=False)

    async def _started(self) -> Process:
        if self._process is None:
            paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", MODULE, stdin=PIPE, stdout=PIPE, env=environment
            )
        if self._closed:  # while it was being started
            await self.end()
            raise ConnectionAbortedError("the broker stops")
        return self._process

    async def close(self) -> None:
        """For good: no compaction begins any more, not even one whose worker is being started."""
        self._closed = True
        await self.end()

    async def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()  # what it was writing is discarded
        await process.wait()
