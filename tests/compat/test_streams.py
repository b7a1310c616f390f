"""Kafka Streams with processing.guarantee=exactly_once_v2 counts each record once."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka
import pytest

from tests.compat.conftest import Address, Clients
from tests.support.java import Java
from tests.support.streams_count import CountsReader, StreamsInstance
from tests.waiting import PROGRAM_S, WAIT_S, until

PARTITIONS = 4
KEYS = 20
RECORDS = 4_000


@pytest.fixture
def instances(
    kafka_streams: Java, broker: Address, clients: Clients, topic: str, tmp_path: Path
) -> Iterator[list[StreamsInstance]]:
    """Two instances of one application, from `topic` to `topic`-counts."""
    target = f"{topic}-counts"
    for name in (topic, target):
        clients["confluent"].create_topic(name, partitions=PARTITIONS)
    servers = broker.bootstrap_servers
    with ExitStack() as stack:
        made = []
        for number in range(2):
            home = tmp_path / f"instance-{number}"
            arguments = (servers, topic, target, topic)
            instance = StreamsInstance(kafka_streams, "Count", home, arguments)
            stack.callback(instance.kill)
            made.append(instance)
        yield made


def write(broker: Address, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5}
    )
    for number in range(count):
        producer.produce(topic, b"x", key=b"key %d" % (number % KEYS))
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0


@pytest.mark.timeout(1800)
def test_a_count_is_exact_through_kills_and_restarts(
    broker: Address, instances: list[StreamsInstance], topic: str
) -> None:
    """After a kill the state is restored from its changelog, whatever was on the disk."""
    reader = CountsReader(broker.bootstrap_servers, f"{topic}-counts", PARTITIONS)
    first, second = instances
    written = 0

    def counted(part: float = 1.0) -> None:
        def enough() -> bool:
            for each in instances:
                each.check()
            return reader.read() >= written - RECORDS + part * RECORDS

        until(
            enough,
            lambda: f"{reader.read()} of {written}: {first.diagnosis()}\n{second.diagnosis()}",
            PROGRAM_S,
        )

    for instance in instances:
        instance.start()
    for harm in ("kill", "stop", "kill both"):
        write(broker, topic, RECORDS)
        written += RECORDS
        counted(part=0.3)
        if harm == "stop":
            first.stop()
            shutil.rmtree(first.home / "state")
        else:
            first.kill()
        if harm == "kill both":
            second.kill()
            second.start()
        first.start()
        counted()
    for instance in instances:
        instance.stop()
    assert reader.read() == written
    reader.close()
    assert reader.counts == {b"key %d" % key: written // KEYS for key in range(KEYS)}
