"""Real clients on compacted topics, while the broker is killed, topics go and policies change."""

import random
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.conftest import StartBroker
from tests.process import REPLICAS, BrokerProcess
from tests.waiting import WAIT_S, until

OPTIONS = {"log.cleaner.backoff.ms": "50"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "100000",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
}
IDLE_S = 300  # the worker has only the CPU that nobody wants: beside other tests it may be little


def create(broker: BrokerProcess, topic: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, REPLICAS, config=COMPACTED)])[topic].result(WAIT_S)
    return admin


class Writer:
    """Writes random keys, and knows what was acknowledged last for each."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self.topic = topic
        self.random = random.Random(3)
        self.last: dict[str, str | None] = {}
        self.maybe: dict[str, list[str | None]] = {}  # sent since, and perhaps there
        self.producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "batch.num.messages": 20,
                "log_level": 0,
            }
        )

    def write(self, count: int) -> None:
        for number in range(count):
            key = f"key{self.random.randrange(200)}"
            value = None if self.random.random() < 0.05 else f"{number}-" * 60
            self.maybe.setdefault(key, []).append(value)
            self.producer.produce(
                self.topic,
                key=key,
                value=value,
                on_delivery=partial(self._told, key, value),
            )
            self.producer.poll(0)

    def _told(
        self, key: str, value: str | None, error: KafkaError | None, _message: Message
    ) -> None:
        if error is None:
            self.last[key] = value

    def flush(self) -> None:
        assert self.producer.flush(WAIT_S) == 0
        assert all(self.last[key] == values[-1] for key, values in self.maybe.items())


def read(broker: BrokerProcess, topic: str) -> tuple[dict[str, str | None], list[int]]:
    """The last value of each key, as a consumer finds it, and all offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "unused",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[str, str | None] = {}
    offsets: list[int] = []
    try:
        while (message := consumer.poll(WAIT_S)) is not None:
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found, offsets
            value = message.value()
            found[(message.key() or b"").decode()] = None if value is None else value.decode()
            offsets.append(message.offset() or 0)
    finally:
        consumer.close()
    raise AssertionError("no end of the partition came")


def live(values: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


def test_a_consumer_finds_the_last_value_of_each_key(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker(OPTIONS)
    create(broker, topic)
    writer = Writer(broker, topic)
    for _ in range(4):
        writer.write(3000)
        writer.flush()
    until(lambda: len(read(broker, topic)[1]) < 8000, wait_s=IDLE_S)
    found, offsets = read(broker, topic)
    assert live(found) == live(writer.last)
    assert offsets == sorted(set(offsets))


@pytest.mark.alone
def test_nothing_is_lost_when_the_broker_is_killed_while_it_compacts(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker(OPTIONS)
    create(broker, topic)
    writer = Writer(broker, topic)
    workers: set[int] = set()
    assert broker.data is not None
    partition = broker.data / f"{topic}-0"
    for pattern in ("*.bases.cleaned", "*.log.cleaned", "*.index.cleaned", "*.swap", "*.deleted"):
        passes = broker.log.count("log compacted")
        writer.write(2500)
        writer.flush()

        def there(pattern: str = pattern, passes: int = passes) -> bool:
            """In the middle of it, at about this step, or else past it."""
            workers.update(children(broker.pid))
            return any(partition.glob(pattern)) or broker.log.count("log compacted") > passes

        until(there, wait_s=IDLE_S)
        broker.kill()
        broker.start()
    found, offsets = read(broker, topic)
    assert live(found) == live(writer.last)
    assert offsets == sorted(set(offsets))
    # The workers of the brokers that were killed have ended with them.
    until(lambda: not [pid for pid in workers if is_worker(pid, broker.pid)], wait_s=IDLE_S)


def children(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").glob("*/children")
        for child in task.read_text().split()
    ]


def is_worker(pid: int, broker: int) -> bool:
    """A worker of another broker than this."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False
    return b"cleaner_worker" in command and pid not in children(broker)


def test_topics_and_policies_may_change_while_they_are_compacted(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker(OPTIONS)
    admin = create(broker, topic)
    policies = ["delete", "compact,delete", "compact"]
    writer = Writer(broker, topic)
    for policy in policies * 2:
        writer.write(1500)
        writer.flush()
        resource = ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
            ],
        )
        for result in admin.incremental_alter_configs([resource]).values():
            result.result(WAIT_S)
    found, _ = read(broker, topic)
    assert live(found) == live(writer.last)
    for number in range(4):  # made, filled, compacted and deleted under the same name
        admin.delete_topics([topic])[topic].result(WAIT_S)
        create(broker, topic)
        again = Writer(broker, topic)
        again.write(1000 + number)
        again.flush()
    found, offsets = read(broker, topic)
    assert live(found) == live(again.last)
    assert max(offsets) == 1002
    assert "request failed" not in broker.log
    assert "fatal error" not in broker.log


def test_a_record_without_a_key_is_refused(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker(OPTIONS)
    create(broker, topic)
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, value="v", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(WAIT_S) == 0
    (error,) = told
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD
