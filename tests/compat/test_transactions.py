"""Transactions of other people's clients: the first protocol, and with Java the second."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.compat.adapters.transactions import FENCED, TRANSACTIONS, TransactionalProducer
from tests.compat.conftest import Address, Clients
from tests.support.java import Java
from tests.waiting import until

PARTITIONS = 2


@pytest.fixture(params=TRANSACTIONS)
def library(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class Producers:
    """Of one library; closed at the end of the test."""

    def __init__(self, servers: str, library: str, stack: ExitStack) -> None:
        self._servers = servers
        self._library = library
        self._stack = stack

    def __call__(self, id_: str) -> TransactionalProducer:
        producer: TransactionalProducer = TRANSACTIONS[self._library](self._servers, id_)
        self._stack.callback(producer.close)
        return producer


@pytest.fixture
def producers(broker: Address, library: str) -> Iterator[Producers]:
    with ExitStack() as stack:
        yield Producers(broker.bootstrap_servers, library, stack)


@pytest.fixture
def made(clients: Clients, topic: str) -> str:
    clients["confluent"].create_topic(topic, partitions=PARTITIONS)
    return topic


def seen(broker: Address, topic: str, *, committed: bool = True) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        consumer.assign(
            [TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)]
        )
        found: list[bytes] = []
        ended = 0
        while ended < PARTITIONS:
            message = consumer.poll(20)
            assert message is not None, f"{len(found)} records, then silence"
            if message.error() is not None:
                ended += 1
            else:
                found.append(message.value() or b"")
        return sorted(found)
    finally:
        consumer.close()


def await_seen(broker: Address, topic: str, values: list[bytes]) -> None:
    """A commit is answered before its markers are written."""
    until(lambda: seen(broker, topic) == sorted(values), lambda: seen(broker, topic))


def test_readers_of_committed_records_see_commits_and_no_aborts(
    broker: Address, producers: Producers, made: str
) -> None:
    producer = producers(made)
    values = []
    for number in range(6):
        producer.begin()
        for partition in range(PARTITIONS):
            values.append(b"%d %d" % (number, partition))
            producer.send(made, partition, values[-1])
        if number % 3 == 1:
            producer.flush()
            producer.abort()
        else:
            producer.commit()
    kept = [value for value in values if not value.startswith((b"1", b"4"))]
    await_seen(broker, made, kept)
    assert seen(broker, made, committed=False) == sorted(values)


def test_a_transaction_is_visible_when_it_is_committed_not_before(
    broker: Address, producers: Producers, made: str
) -> None:
    producer = producers(made)
    producer.begin()
    producer.send(made, 0, b"a")
    producer.flush()
    assert seen(broker, made, committed=False) == [b"a"]
    assert seen(broker, made) == []
    producer.commit()
    await_seen(broker, made, [b"a"])


def test_records_and_offsets_are_committed_together_or_not_at_all(
    broker: Address, producers: Producers, clients: Clients, made: str
) -> None:
    target, group = f"{made}-copy", f"{made}-group"
    clients["confluent"].create_topic(target, partitions=PARTITIONS)
    producer = producers(made)
    producer.begin()
    for number in range(10):
        producer.send(made, number % PARTITIONS, b"%d" % number)
    producer.commit()
    await_seen(broker, made, [b"%d" % number for number in range(10)])
    copier = producers(f"{made}-copier")
    for attempt in range(3):  # the first fails, the second reads the same records again
        copier.begin()
        expected = 10 if attempt < 2 else 0
        values = copier.read(made, group, expected) if expected else []
        for value in values:
            copier.send(target, int(value) % PARTITIONS, value)
        if values:
            copier.send_offsets()
        copier.flush()
        if attempt == 0:
            copier.abort()
        else:
            copier.commit()
    await_seen(broker, target, [b"%d" % number for number in range(10)])


def send_and_commit(producer: TransactionalProducer, topic: str) -> None:
    """The libraries report a fenced producer at different steps."""
    producer.send(topic, 0, b"late")
    producer.flush()
    producer.commit()


def test_the_newer_producer_of_an_id_fences_the_older_one(
    broker: Address, producers: Producers, made: str
) -> None:
    old = producers(made)
    old.begin()
    old.send(made, 0, b"old")
    old.flush()
    new = producers(made)
    new.begin()
    new.send(made, 0, b"new")
    new.commit()
    with pytest.raises(FENCED):
        send_and_commit(old, made)
    await_seen(broker, made, [b"new"])


@pytest.mark.parametrize("step", ["both", "copy", "fence", "admin"])
def test_java(java_client: Java, broker: Address, made: str, step: str) -> None:
    done = java_client.run("Transact", broker.bootstrap_servers, made, step)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.endswith("ok\n")
