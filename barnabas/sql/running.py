"""Runs a query in a process of its own, and passes on what it says.

Always: the process is killed when the reader goes away, and at the limits of time and memory.
"""

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

LINE_BYTES_MAX = 64 << 20
QUERY_MAX = 100_000


@dataclass
class QueryRequest:
    """`rows_max`: of the result. `seconds_max` does not hold with `follow`."""

    query: str
    settings: dict[str, str] = field(default_factory=dict)
    follow: bool = False
    explain: bool = False
    records_max: int = 10_000_000
    rows_max: int = 10_000
    memory_mb: int = 512
    seconds_max: float = 60.0
    as_of_ms: int | None = None  # topics end where they ended at this time
    registry: str = ""  # address of a schema registry, for a worker that decodes values
    lakes: list[str] = field(default_factory=list)  # specs, for a worker that knows them
    save_as: str = ""  # arrow or parquet: written to `save_fd`, instead of lines with `rows`
    save_fd: int = -1


WORKER = "barnabas.sql.worker"


async def run_query(
    request: QueryRequest, worker: str = WORKER
) -> AsyncGenerator[dict[str, Any], None]:
    """Lines with `columns`, `rows`, `note`, `plan`; the last has `done` and the number of rows, or
    `error`. `worker`: the module that runs the query.
    """
    if len(request.query) > QUERY_MAX:
        yield {"error": f"the query has more than {QUERY_MAX:,} characters"}
        return
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        worker,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=LINE_BYTES_MAX,
        pass_fds=(request.save_fd,) if request.save_as else (),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        _limit_memory(process.pid, request.memory_mb)
        process.stdin.write(json.dumps(asdict(request)).encode() + b"\n")
        await process.stdin.drain()
        deadline = None
        if not request.follow:
            deadline = asyncio.get_running_loop().time() + request.seconds_max
        ended = False
        while True:
            async with asyncio.timeout_at(deadline):
                line = await process.stdout.readline()
            if not line:
                break
            said = json.loads(line)
            ended = "done" in said or "error" in said
            yield said
        if not ended:
            why = (await process.stderr.read()).decode(errors="replace").strip().splitlines()
            last = why[-1] if why else "it was killed"
            yield {"error": f"the query ended early: {last[:500]}"}
    except TimeoutError:
        yield {"error": f"the query took longer than {request.seconds_max:.0f} s, and was ended"}
    finally:
        if process.returncode is None:
            # Not process.kill(): it can take the exit status for which the event loop waits.
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        await process.wait()


def _limit_memory(pid: int, memory_mb: int) -> None:
    """Beside DuckDB's own limit: what Arrow and Python need, too. Address space is not memory, so
    the bound is wide."""
    size = (memory_mb + 8_192) << 20
    try:
        resource.prlimit(pid, resource.RLIMIT_AS, (size, size))
    except (OSError, ValueError, AttributeError):
        pass
