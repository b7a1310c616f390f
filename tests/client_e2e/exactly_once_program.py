"""A worker process that writes exactly once, for tests to kill.

python -m tests.client_e2e.exactly_once_program SERVERS GROUP TOPIC [blocking] [ID]

Each good record has two results, which name it. ID: a group.instance.id, and so the same
transactional.id after a restart.
"""

import asyncio
import sys
import time
from typing import Any

from barnabas import ProducerRecord, Reject, Retry, parallel
from barnabas.client.consumer.message import RawMessage

SESSION_MS = 15_000  # a process that is not killed stays a member
TRANSACTION_MS = 15_000
COPIES = 2


def main(servers: str, group: str, topic: str, *how: str) -> None:
    def results(message: RawMessage) -> list[ProducerRecord]:
        value = message.value or b""
        if value.startswith(b"poison"):
            raise ValueError(f"{value.decode()} is bad")
        if value.startswith(b"reject"):
            raise Reject(value.decode())
        size = 3_000 if value.startswith(b"large") else 1  # more than the topic accepts
        return [
            ProducerRecord(f"{topic}.out", b"%s#%d" % (value * size, copy), key=message.key)
            for copy in range(COPIES)
        ]

    async def waiting(message: RawMessage) -> list[ProducerRecord]:
        await asyncio.sleep(0.002)
        return results(message)

    def blocking(message: RawMessage) -> list[ProducerRecord]:
        time.sleep(0.002)
        return results(message)

    names = [each for each in how if each != "blocking"]
    options: dict[str, Any] = {"group_instance_id": names[0]} if names else {}
    work = parallel(
        topic,
        group_id=group,
        exactly_once=True,
        order="key",
        window=200,
        concurrency=8,
        retry=Retry(1, backoff=(0.01, 0.01), rounds=1, delay=(0.1, 0.1)),
        retry_topic=f"{topic}.retry",
        dlq=f"{topic}.dlq",
        commit_interval=0.02,
        bootstrap_servers=servers,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        transaction_timeout_ms=TRANSACTION_MS,
        **options,
    )(blocking if "blocking" in how else waiting)
    print("ready", flush=True)
    work.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
