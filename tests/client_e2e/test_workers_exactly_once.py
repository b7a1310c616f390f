"""Workers that write their results exactly once, on a broker with transactions."""

import asyncio
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas import ProducerRecord, parallel
from barnabas.client.consumer.message import RawMessage
from tests.client_e2e.conftest import Served
from tests.client_e2e.test_workers import committed, fill

PARTITIONS = 3


def created(servers: str, topic: str, partitions: int = PARTITIONS, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=partitions, configs=named)


def written(servers: str, topic: str, partitions: int = PARTITIONS) -> list[RawMessage]:
    """All committed records."""
    with barnabas.sync.PartitionConsumer(
        [(topic, number) for number in range(partitions)],
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.stop_at(consumer.end_offsets())
        return list(consumer)


def values(messages: list[RawMessage]) -> list[int]:
    return sorted(int(message.value or b"-1") for message in messages)


@pytest.mark.parametrize("how", ["awaiting", "blocking"])
async def test_each_result_is_written_once(
    transactional: Served, topic: str, group: str, how: str
) -> None:
    servers = transactional.bootstrap_servers
    target = f"{topic}-doubled"
    await asyncio.to_thread(fill, servers, topic, 200)
    await asyncio.to_thread(created, servers, target)

    def doubled(message: RawMessage) -> list[ProducerRecord]:
        value = 2 * int(message.value or b"")
        return [ProducerRecord(target, b"%d" % value, key=message.key, headers={"n": b"1"})]

    async def awaiting(message: RawMessage) -> list[ProducerRecord]:
        await asyncio.sleep(0.001)
        return doubled(message)

    decorated = parallel(topic, group_id=group, exactly_once=True)
    work: Any = decorated(awaiting if how == "awaiting" else doubled)
    running = asyncio.create_task(work.serve(bootstrap_servers=servers))

    async def all_there() -> bool:
        return len(await asyncio.to_thread(written, servers, target)) >= 200

    while not await all_there():
        assert not running.done(), running.exception()
    work.stop()
    await running
    found = await asyncio.to_thread(written, servers, target)
    assert values(found) == [2 * number for number in range(200)]
    assert {message.headers for message in found} == {(("n", b"1"),)}
    assert sum((await asyncio.to_thread(committed, servers, group, topic)).values()) == 200
