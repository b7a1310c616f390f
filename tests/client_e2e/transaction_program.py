"""Copies a topic in transactions, for tests to kill: each record once, or not yet.

python -m tests.client_e2e.transaction_program SERVERS SOURCE TARGET ID HOW PROTOCOL
"""

import asyncio
import sys
from typing import Any

import barnabas
import barnabas.sync
from barnabas.client.producer.coordinator_requests import CoordinatorRequests

COUNT_MAX = 25


async def awaiting(source: str, target: str, reads: Any, writes: Any) -> None:
    async with (
        barnabas.Producer(writes) as producer,
        barnabas.Consumer(source, reads) as consumer,
    ):
        # First: it ends what a killed one left open, and offsets wait for that.
        await producer.init_transactions()
        while True:
            messages = await consumer.getmany(COUNT_MAX)
            async with producer.transaction():
                for message in messages:
                    producer.send_nowait(target, message.value, partition=message.partition)
                offsets = {(m.topic, m.partition): m.offset + 1 for m in messages}
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())


def blocking(source: str, target: str, reads: Any, writes: Any) -> None:
    with (
        barnabas.sync.Producer(writes) as producer,
        barnabas.sync.Consumer(source, reads) as consumer,
    ):
        producer.init_transactions()
        while True:
            messages = consumer.getmany(COUNT_MAX)
            with producer.transaction():
                for message in messages:
                    producer.send_nowait(target, message.value, partition=message.partition)
                offsets = {(m.topic, m.partition): m.offset + 1 for m in messages}
                producer.send_offsets_to_transaction(offsets, consumer.group_metadata())


def main(servers: str, source: str, target: str, name: str, how: str, protocol: str) -> None:
    CoordinatorRequests.protocol_max = int(protocol)
    writes = {"bootstrap.servers": servers, "transactional.id": name}
    reads = {
        "bootstrap.servers": servers,
        "group.id": f"{name}-group",
        "group.instance.id": name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if how == "awaiting":
        asyncio.run(awaiting(source, target, reads, writes))
    else:
        blocking(source, target, reads, writes)


if __name__ == "__main__":
    main(*sys.argv[1:])
