"""A worker process for tests to kill: notes each record it has handled in a file.

python -m tests.client_e2e.worker_program SERVERS GROUP TOPIC NOTES [retry] [blocking]
"""

import asyncio
import os
import sys
import time

from barnabas.client.consumer.message import RawMessage
from barnabas.client.workers.parallel import parallel
from barnabas.client.workers.policy import Reject, Retry

SESSION_MS = 15_000  # a process that is not killed stays a member


def main(servers: str, group: str, topic: str, notes: str, *how: str) -> None:
    note = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def handled(message: RawMessage) -> None:
        value = message.value or b""
        if value.startswith(b"poison"):
            raise ValueError(f"{value.decode()} is bad")
        if value.startswith(b"reject"):
            raise Reject(value.decode())
        os.write(note, value + b"\n")  # one write: whole lines, whatever kills us

    async def waiting(message: RawMessage) -> None:
        await asyncio.sleep(0.002)
        handled(message)

    def blocking(message: RawMessage) -> None:
        time.sleep(0.002)
        handled(message)

    work = parallel(
        topic,
        group_id=group,
        order="key",
        window=200,
        concurrency=8,
        retry=Retry(1, backoff=(0.01, 0.01), rounds=1, delay=(0.1, 0.1)),
        retry_topic=f"{topic}.retry" if "retry" in how else None,
        dlq=f"{topic}.dlq",
        commit_interval=0.05,
        bootstrap_servers=servers,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
    )(blocking if "blocking" in how else waiting)
    print("ready", flush=True)
    work.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
