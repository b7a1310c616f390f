"""What the articles say about consumers that share their work through ZooKeeper, step by step.

The nodes are in a keeper in memory, and the messages on a broker.
"""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.net import run
from barnabas.client.consumer.membership.zookeeper import Attempts
from barnabas.client.consumer.zookeeper_consumer import ZookeeperFlows
from barnabas.keeper.keeper import Keeper, Listener, ensure
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.keeper.paths import topic_data
from barnabas.testing import Kafka

GROUP = "group1"


class OldConsumers:
    """Members of one group, and the store with their nodes."""

    def __init__(self, kafka: Kafka, partitions: int) -> None:
        self.kafka = kafka
        self.store = MemoryStore()
        self.members: dict[str, ZookeeperFlows] = {}
        self.causes: dict[str, list[str]] = {}
        kafka.create_topic("topic1", partitions)
        self.keeper = MemoryKeeper(self.store)
        ensure(self.keeper, "/brokers/topics")
        ensure(self.keeper, "/brokers/ids")
        self.keeper.create(
            "/brokers/topics/topic1", topic_data(uuid4(), {n: [0] for n in range(partitions)})
        )

    def join(self, name: str) -> None:
        def open_(listener: Listener) -> Keeper:
            return MemoryKeeper(self.store, 60_000, listener)

        causes = self.causes.setdefault(name, [])
        self.members[name] = ZookeeperFlows(
            ["topic1"],
            open_,
            open_cluster(
                {"auto.offset.reset": "earliest"},
                {"bootstrap_servers": self.kafka.bootstrap_servers, "group_id": GROUP},
            ),
            consumer_id=name,
            attempts=Attempts(1_000, 1),
            on_assigned=lambda _, partitions, cause: causes.append(str(cause)),
        )

    def poll(self) -> list[Any]:
        return [m for each in self.members.values() for m in run(each.getmany(timeout=0.01))]

    def read(self, count: int) -> list[Any]:
        found: list[Any] = []

        def enough() -> bool:
            found.extend(self.poll())
            return len(found) >= count

        self.kafka.wait_until(enough)
        return found

    def owned(self) -> list[list[int]]:
        return [[at.partition for at in each.assignment()] for each in self.members.values()]

    def settle(self, wanted: list[list[int]]) -> None:
        self.kafka.wait_until(
            lambda: self.poll() is not None and self.owned() == wanted,
            otherwise=lambda: f"{self.owned()}, not {wanted}",
        )

    def leave(self, name: str) -> None:
        run(self.members.pop(name).close())


@pytest.fixture
def consumers(kafka: Kafka) -> Iterator[OldConsumers]:
    found = OldConsumers(kafka, 6)
    yield found
    for name in list(found.members):
        found.leave(name)


def test_members_and_owners_and_offsets_are_nodes(consumers: OldConsumers) -> None:
    """/consumers/GROUP/ids, owners, offsets: the first two go with their consumer."""
    consumers.kafka.produce("topic1", ["1", "2"], partition=0)
    consumers.join("c1")
    found = consumers.read(2)
    assert consumers.owned() == [[0, 1, 2, 3, 4, 5]]
    keeper = consumers.keeper
    assert keeper.children(f"/consumers/{GROUP}/ids") == [f"{GROUP}_c1"]
    assert keeper.children(f"/consumers/{GROUP}/owners/topic1") == [str(n) for n in range(6)]
    assert keeper.get(f"/consumers/{GROUP}/owners/topic1/0").data.startswith(b"group1_c1")
    consumers.leave("c1")
    assert keeper.children(f"/consumers/{GROUP}/ids") == []
    assert keeper.children(f"/consumers/{GROUP}/owners/topic1") == []
    assert keeper.get(f"/consumers/{GROUP}/offsets/topic1/0").data == b"2"
    consumers.kafka.produce("topic1", ["3"], partition=0)
    consumers.join("c2")
    found += consumers.read(1)
    assert [message.value for message in found] == [b"1", b"2", b"3"], "it goes on from there"


def test_each_member_takes_its_range_and_rounding_up_leaves_one_without_work(
    consumers: OldConsumers,
) -> None:
    """N = ceil(6 / 4): member i takes i*N to (i+1)*N-1."""
    for name in ("c1", "c2", "c3", "c4"):
        consumers.join(name)
    consumers.settle([[0, 1], [2, 3], [4, 5], []])


def test_a_member_or_a_broker_that_comes_or_goes_makes_every_member_rebalance(
    consumers: OldConsumers,
) -> None:
    consumers.join("c1")
    consumers.join("c2")
    consumers.settle([[0, 1, 2], [3, 4, 5]])
    before = {name: len(told) for name, told in consumers.causes.items()}
    consumers.join("c3")
    consumers.settle([[0, 1], [2, 3], [4, 5]])
    assert all(len(consumers.causes[name]) > before[name] for name in ("c1", "c2"))
    assert "a member joined or left" in consumers.causes["c1"][-1]
    before = {name: len(told) for name, told in consumers.causes.items()}
    consumers.keeper.create("/brokers/ids/7", b"{}")
    consumers.kafka.wait_until(
        lambda: (
            consumers.poll() is not None
            and all(len(told) > before[name] for name, told in consumers.causes.items())
        ),
    )
    assert {told[-1] for told in consumers.causes.values()} == {
        f"group {GROUP!r}: a broker joined or left"
    }
