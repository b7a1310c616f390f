"""What the tests of delivery at a time share: delayer processes, and records with headers."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

import barnabas
from barnabas.client.admin.admin import LATEST
from barnabas.client.consumer.message import RawMessage
from barnabas.client.consumer.partition_consumer import PartitionConsumer
from barnabas.model.ids import TopicPartition
from tests.waiting import until

READY = b"barnabas delay delivers from "


class DelayedSend(NamedTuple):
    """A record for a holding topic; `at`: the text of the header."""

    value: str
    at: str | None
    to: str | None
    key: str | None = None


class DelayerProcess:
    """`barnabas delay run`."""

    def __init__(self, servers: str, log: Path, topics: Sequence[str]) -> None:
        self._log = log
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "barnabas", "delay", "run", *topics, "-b", servers),
                    *("-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=1000"),
                ],
                stdout=file,
                stderr=file,
            )

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def check_running(self) -> None:
        assert self._process.poll() is None, self.said

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait()


@contextmanager
def delayer(servers: str, log: Path, *topics: str) -> Iterator[DelayerProcess]:
    """One that has begun, and is stopped at the end; its log is free of tracebacks."""
    running = DelayerProcess(servers, log, topics)
    try:
        until(lambda: _began(running), lambda: running.said)
        yield running
        assert running.stop() == 0, running.said
    finally:
        running.kill()
    assert "Traceback" not in running.said, running.said


def _began(running: DelayerProcess) -> bool:
    running.check_running()
    return READY.decode() in running.said


def now_ms() -> int:
    return int(time.time() * 1000)


def send(servers: str, holding: str, records: Sequence[DelayedSend]) -> None:
    """With a client that knows nothing of delays."""
    producer = Producer({"bootstrap.servers": servers})
    for record in records:
        headers: list[tuple[str, str | bytes | None]] = []
        headers += [("deliver-at", record.at)] if record.at is not None else []
        headers += [("deliver-to", record.to)] if record.to is not None else []
        producer.produce(holding, record.value, key=record.key, headers=headers)
    assert producer.flush(120) == 0


async def committed(servers: str, topic: str) -> list[RawMessage]:
    """All committed records of a topic, by partition and offset."""
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        partitions = [
            TopicPartition(topic, each.number) for each in (await admin.topic(topic)).partitions
        ]
        ends = await admin.offsets(dict.fromkeys(partitions, LATEST), committed_only=True)
    async with PartitionConsumer(
        partitions,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        consumer.stop_at({at: end.offset for at, end in ends.items()})
        found = [message async for message in consumer]
    return sorted(found, key=lambda one: (one.partition, one.offset))


async def count(servers: str, topic: str) -> int:
    return len(await committed(servers, topic))
