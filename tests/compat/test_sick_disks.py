"""One of three log directories fails, or stalls, under the load of real clients."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.process import BrokerProcess
from tests.raw import RawClient
from tests.sick_broker import BROKEN, SLOW
from tests.waiting import WAIT_S

pytestmark = pytest.mark.alone

TOPIC = "orders"
PARTITIONS = 3
SICK = 1  # the partition, and the directory, that fails


class Sick(BrokerProcess):
    """`barnabas up` on three directories whose disks can be made to fail."""

    def command(self) -> list[str]:
        assert self.data is not None
        where = [part for name in "012" for part in ("--data", str(self.data / name))]
        listen = ("--listen", f"{self.host}:{self.port}")
        return [sys.executable, "-m", "tests.sick_broker", "up", *where, *listen]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Sick]:
    running = Sick(tmp_path / "data", log=tmp_path / "broker.log")
    running.start()
    yield running
    if running.is_running():
        running.stop()
    running.check_log()


def create(broker: Sick, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=config)])[TOPIC].result(WAIT_S)


def mark(broker: Sick, name: str) -> Path:
    assert broker.data is not None
    path = broker.data / str(SICK) / name
    path.touch()
    return path


class Load:
    """A producer that keeps partitions busy, and what became of its records."""

    def __init__(self, broker: Sick, *partitions: int) -> None:
        self._partitions = partitions or range(PARTITIONS)
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "linger.ms": 1,
                "message.timeout.ms": 570_000,
                "request.timeout.ms": 560_000,  # longer than a test may take
                "retries": 0,
                "acks": "all",
            }
        )
        self.sent = 0
        self.acknowledged: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.refused: list[tuple[int, KafkaError]] = []

    def send(self, rounds: int) -> None:
        for _ in range(rounds):
            for partition in self._partitions:
                value = b"%d" % self.sent
                self.sent += 1
                self._producer.produce(
                    TOPIC, value, partition=partition, on_delivery=self._delivered
                )
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert isinstance(value, bytes)
        if error is None:
            self.acknowledged[partition].append(value)
        else:
            self.refused.append((partition, error))

    def finish(self) -> None:
        assert self._producer.flush(WAIT_S) == 0


def stored(broker: Sick, partition: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "check",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0)])
    found: list[bytes] = []
    try:
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, "neither a record nor the end"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            value = message.value()
            assert isinstance(value, bytes)
            found.append(value)
    finally:
        consumer.close()


def test_one_directory_of_three_fails_under_load_and_nobody_else_notices(broker: Sick) -> None:
    create(broker, {})
    load = Load(broker)
    load.send(500)
    load.finish()
    assert not load.refused
    broken = mark(broker, BROKEN)
    load.send(500)
    load.finish()
    assert {partition for partition, _ in load.refused} == {SICK}
    codes = Counter(error.code() for _, error in load.refused)
    assert codes[KafkaError.KAFKA_STORAGE_ERROR], codes
    for partition in (0, 2):
        assert len(load.acknowledged[partition]) == 1000
        assert set(stored(broker, partition)) >= set(load.acknowledged[partition])
    assert "log directory offline" in broker.log
    broken.unlink()
    broker.kill()
    broker.start()
    for partition in range(PARTITIONS):
        assert set(stored(broker, partition)) >= set(load.acknowledged[partition])


def test_a_directory_whose_syncs_stall_holds_up_its_own_records_alone(broker: Sick) -> None:
    create(broker, {"flush.messages": "1"})
    first = Load(broker)
    first.send(1)
    first.finish()
    assert [len(values) for values in first.acknowledged] == [1, 1, 1]
    slow = mark(broker, SLOW)
    stalled, others = Load(broker, SICK), Load(broker, 0, 2)
    try:
        stalled.send(1)
        with RawClient(broker.host, broker.port) as control:
            for _ in range(100):
                control.metadata()
                others.send(1)
                others.finish()
        assert [len(values) for values in others.acknowledged] == [100, 0, 100]
        assert not stalled.acknowledged[SICK]
    finally:
        slow.unlink()
    stalled.finish()
    assert len(stalled.acknowledged[SICK]) == 1
    assert not stalled.refused + others.refused
