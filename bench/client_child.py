"""One client at one task, in a process of its own: `python -m bench.client_child CLIENT TASK ...`.

In: a client, a task, an address, a topic, a count. Out: a line of JSON: seconds, this process's
CPU seconds, and of single round trips the times.
Always: the first records connect and warm up, and are not counted.
"""

import asyncio
import importlib.machinery
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench.client_readers import READERS
from bench.clock import Clock
from tests.support.cache import ROOT

RECORD_SIZE = 100
WARM_UP = 2_000
DRAIN_EACH = 100  # records: counts are multiples of it
_VALUE = bytes(RECORD_SIZE)
_LARGE: dict[str, Any] = {"linger_ms": 5}


def without_compiled() -> None:
    """From here on our modules are imported from their sources."""
    home = str(ROOT / "barnabas")
    loader = (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES)

    def finder(path: str) -> importlib.machinery.FileFinder:
        if not path.startswith(home):
            raise ImportError(path)
        return importlib.machinery.FileFinder(path, loader)

    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.clear()


# --- producing ---


async def produce_ours(servers: str, topic: str, count: int) -> dict[str, Any]:
    from barnabas import Producer

    async with Producer(bootstrap_servers=servers, **_LARGE) as producer:
        for _ in range(WARM_UP):
            producer.send_nowait(topic, _VALUE)
        await producer.flush()
        clock = Clock()
        for _ in range(count // DRAIN_EACH):
            for _ in range(DRAIN_EACH):
                producer.send_nowait(topic, _VALUE)
            await producer.drain()
        await producer.flush()
        return clock.result()


def produce_ours_blocking(servers: str, topic: str, count: int) -> dict[str, Any]:
    from barnabas.sync import Producer

    with Producer(bootstrap_servers=servers, **_LARGE) as producer:
        for _ in range(WARM_UP):
            producer.send_nowait(topic, _VALUE)
        producer.flush()
        clock = Clock()
        for _ in range(count // DRAIN_EACH):
            for _ in range(DRAIN_EACH):
                producer.send_nowait(topic, _VALUE)
            producer.drain()
        producer.flush()
        return clock.result()


def produce_confluent(servers: str, topic: str, count: int) -> dict[str, Any]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for _ in range(WARM_UP):
        producer.produce(topic, _VALUE)
    producer.flush()
    clock = Clock()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, _VALUE)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush()
    return clock.result()


async def produce_aiokafka(servers: str, topic: str, count: int) -> dict[str, Any]:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=servers, acks="all", linger_ms=5, max_batch_size=131_072
    )
    await producer.start()
    for _ in range(WARM_UP):
        await producer.send(topic, _VALUE)
    await producer.flush()
    clock = Clock()
    for _ in range(count):
        await producer.send(topic, _VALUE)
    await producer.flush()
    result = clock.result()
    await producer.stop()
    return result


def produce_kafka_python(servers: str, topic: str, count: int) -> dict[str, Any]:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=5, batch_size=131_072)
    for _ in range(WARM_UP):
        producer.send(topic, _VALUE)
    producer.flush()
    clock = Clock()
    for _ in range(count):
        producer.send(topic, _VALUE)
    producer.flush()
    result = clock.result()
    producer.close()
    return result


# --- one record at a time ---


async def _each(send: Callable[[], Awaitable[object]], count: int) -> dict[str, Any]:
    for _ in range(200):
        await send()
    clock = Clock()
    times = []
    for _ in range(count):
        started = time.perf_counter()
        await send()
        times.append(time.perf_counter() - started)
    return {**clock.result(), "times": times}


async def round_trips_ours(servers: str, topic: str, count: int) -> dict[str, Any]:
    from barnabas import Producer

    async with Producer(bootstrap_servers=servers) as producer:
        return await _each(lambda: producer.send(topic, _VALUE), count)


async def round_trips_aiokafka(servers: str, topic: str, count: int) -> dict[str, Any]:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")
    await producer.start()
    result = await _each(lambda: producer.send_and_wait(topic, _VALUE), count)
    await producer.stop()
    return result


def main() -> None:
    task, client, servers, topic, count = sys.argv[1:]
    if client == "barnabas-uncompiled":
        without_compiled()
        client = "barnabas"
    work = TASKS[task][client]
    result = work(servers, topic, int(count))
    if asyncio.iscoroutine(result):
        import uvloop

        result = uvloop.run(result)
    print(json.dumps(result))


TASKS: dict[str, dict[str, Callable[[str, str, int], Any]]] = {
    "produce": {
        "barnabas": produce_ours,
        "barnabas.sync": produce_ours_blocking,
        "confluent-kafka": produce_confluent,
        "aiokafka": produce_aiokafka,
        "kafka-python": produce_kafka_python,
    },
    "round-trip": {"barnabas": round_trips_ours, "aiokafka": round_trips_aiokafka},
    "consume": READERS,
}


if __name__ == "__main__":
    main()
