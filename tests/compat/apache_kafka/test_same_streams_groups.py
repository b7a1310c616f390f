"""Kafka Streams with group.protocol=streams does the same on Barnabas as on Apache Kafka: a count
and a join, with internal topics that the broker creates, standby tasks, a kill and restarts."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.compat.conftest import Address
from tests.ports import free_ports
from tests.process import running_broker
from tests.support.java import Java
from tests.support.kafka import kafka_for_tests
from tests.support.streams_count import StreamsInstance
from tests.waiting import PROGRAM_S, WAIT_S, until

PARTITIONS = 4
CUSTOMERS = 10
RECORDS = 1_000
APPLICATION = "shop"
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
OPTIONS = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "20000",
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.num.standby.replicas": "1",
}
REPARTITION = f"{APPLICATION}-by-customer-repartition"
INTERNAL = {
    REPARTITION: PARTITIONS,
    f"{APPLICATION}-counts-changelog": PARTITIONS,
    f"{APPLICATION}-names-STATE-STORE-0000000000-changelog": PARTITIONS,
}


@pytest.fixture(params=["barnabas", "kafka"])
def either(request: pytest.FixtureRequest, kafka_lib: Path, tmp_path: Path) -> Iterator[Address]:
    directory = tmp_path / "broker"
    if request.param == "barnabas":
        with running_broker(directory, OPTIONS) as ours:
            yield ours
    else:
        with kafka_for_tests(directory, OPTIONS) as theirs:
            yield theirs


@pytest.fixture
def instances(
    kafka_streams: Java, either: Address, tmp_path: Path
) -> Iterator[list[StreamsInstance]]:
    """Two instances of the application."""
    with ExitStack() as stack:
        made = []
        for number, port in enumerate(free_ports(2)):
            arguments = (either.bootstrap_servers, "orders", "names", "named", APPLICATION)
            home = tmp_path / f"instance-{number}"
            more = (f"127.0.0.1:{port}",)
            instance = StreamsInstance(kafka_streams, "CountAndJoin", home, arguments, more)
            stack.callback(instance.kill)
            made.append(instance)
        yield made


class NamedCounts:
    """Reads the results: each customer's counts, each once and in order."""

    def __init__(self, servers: str) -> None:
        self.counts: dict[str, int] = {}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [TopicPartition("named", number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
        )

    def read(self) -> int:
        for message in self._consumer.consume(5_000, 0.05):
            if message.error() is not None:
                continue
            customer, text = (message.key() or b"").decode(), (message.value() or b"").decode()
            name, _, number = text.rpartition(" ")
            assert name == f"name of {customer}"
            before = self.counts.get(customer, 0)
            assert int(number) == before + 1, f"{customer} had {before}, then {number}"
            self.counts[customer] = int(number)
        return sum(self.counts.values())

    def close(self) -> None:
        self._consumer.close()


def write(servers: str, topic: str, values: list[tuple[str, str]]) -> None:
    """With the partitions that Java gives them: what is joined must be in the same."""
    options = {"bootstrap.servers": servers, "partitioner": "murmur2_random", "log_level": 0}
    producer = confluent_kafka.Producer(options)
    for key, value in values:
        producer.produce(topic, value, key=key)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0


def places(instance: StreamsInstance) -> dict[str, tuple[str, str]]:
    """By port: the partitions that an instance has, and those of which it has a copy, as this one
    knows them from the broker."""
    told = [line for line in instance.lines() if line.startswith("PLACES ")]
    if not told:
        return {}
    found = {}
    for each in told[-1].removeprefix("PLACES ").split("; "):
        port, _, rest = each.partition(" has ")
        has, _, copies = rest.partition(" copies ")
        found[port] = (has, copies)
    return found


def is_spread(instance: StreamsInstance) -> bool:
    """Two instances have two of the four partitions each, and copies of the two others."""
    known = list(places(instance).values())
    return (
        len(known) == 2
        and all(has.count(",") == copies.count(",") == 1 for has, copies in known)
        and known[0][0] == known[1][1]
        and known[1][0] == known[0][1]
    )


@pytest.mark.timeout(1800)
def test_a_count_and_a_join_survive_a_kill_and_restarts(
    either: Address, instances: list[StreamsInstance], java_tools: Java
) -> None:
    servers = either.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    new = [NewTopic(name, PARTITIONS, 1) for name in ("orders", "names", "named")]
    for future in admin.create_topics(new).values():
        future.result()
    customers = [f"customer {number}" for number in range(CUSTOMERS)]
    write(servers, "names", [(each, f"name of {each}") for each in customers])
    reader = NamedCounts(servers)
    first, second = instances
    written = 0

    def more_orders() -> None:
        nonlocal written
        orders = [(str(n), customers[n % CUSTOMERS]) for n in range(written, written + RECORDS)]
        write(servers, "orders", orders)
        written += RECORDS

    def say() -> str:
        return f"{reader.read()} of {written}: {first.diagnosis()}\n---\n{second.diagnosis()}"

    def counted(part: float = 1.0) -> None:
        until(lambda: reader.read() >= written - RECORDS + part * RECORDS, say, PROGRAM_S)

    first.start()
    more_orders()
    counted()
    found = admin.list_topics(timeout=WAIT_S).topics
    made = {name: len(topic.partitions) for name, topic in found.items() if name in INTERNAL}
    assert made == INTERNAL, "the broker created the internal topics"
    second.start()
    until(lambda: is_spread(first) and is_spread(second), say, PROGRAM_S)

    more_orders()
    counted(part=0.3)
    second.kill()  # its tasks are continued where the copies are
    counted()
    until(lambda: len(places(first)) == 1, say, PROGRAM_S)
    shutil.rmtree(second.home / "state")
    second.start()
    until(lambda: is_spread(first), say, PROGRAM_S)

    more_orders()
    first.stop()
    counted()
    first.start()
    until(lambda: is_spread(second), say, PROGRAM_S)
    more_orders()
    counted()
    assert reader.counts == dict.fromkeys(customers, written // CUSTOMERS)
    reader.close()
    tool = StreamsGroupsTool(java_tools, servers)
    tool.check_described()
    for instance in instances:
        instance.stop()
    tool.check_reset_and_deleted()
    assert not INTERNAL.keys() & admin.list_topics(timeout=WAIT_S).topics.keys()


class StreamsGroupsTool:
    """kafka-streams-groups."""

    def __init__(self, tools: Java, servers: str) -> None:
        self._tools = tools
        self._servers = servers

    def run(self, *arguments: str) -> str:
        done = self._tools.run(TOOL, "--bootstrap-server", self._servers, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def rows(self, *arguments: str) -> list[list[str]]:
        """The lines about the group."""
        lines = self.run(*arguments, "--group", APPLICATION).splitlines()
        return [line.split() for line in lines if line.startswith(APPLICATION)]

    def check_described(self) -> None:
        assert self.run("--list").split() == [APPLICATION]
        states: list[list[str]] = []

        def stable() -> bool:
            states[:] = self.rows("--describe", "--state")
            return len(states) == 1 and "Stable" in states[0] and states[0][-1] == "2"

        until(stable, lambda: states)  # a member that starved may just have come back
        assert len(self.rows("--describe", "--members", "--verbose")) == 2
        lags = self.rows("--describe")
        assert {row[1] for row in lags} == {"orders", "names", REPARTITION}
        assert {row[-1] for row in lags if row[1] == "orders"} == {"0"}

    def check_reset_and_deleted(self) -> None:
        again = self.rows(
            "--reset-offsets", "--to-earliest", "--input-topic", "orders", "--execute"
        )
        assert [row[-1] for row in again] == ["0"] * PARTITIONS, again
        self.run("--delete", "--delete-all-internal-topics", "--group", APPLICATION)
        assert self.run("--list").split() == []
