"""The old consumer, reading from a broker; its group is in the broker's own keeper file."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import barnabas.sync
from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.net import run
from barnabas.client.consumer.membership.zookeeper import Attempts
from barnabas.client.consumer.zookeeper_consumer import (
    RebalanceFailed,
    ZookeeperConsumer,
    ZookeeperFlows,
)
from barnabas.keeper import consumer_paths as paths
from barnabas.keeper.keeper import Keeper, Listener, ensure
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.keeper.sqlite import SqliteKeeper
from barnabas.model.errors import Fenced, InvalidRequest
from barnabas.model.ids import TopicPartition
from tests.client_e2e.test_workers_docs import _mypy
from tests.process import BrokerProcess, running_broker
from tests.support.cache import ROOT
from tests.waiting import WAIT_S

PARTITIONS = 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("broker"), {}) as running:
        yield running


@pytest.fixture
def topic(broker: BrokerProcess, request: pytest.FixtureRequest) -> str:
    """Ten records in each partition, whose values are their offsets."""
    name = str(request.node.name)
    with barnabas.sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(name, partitions=PARTITIONS)
    produce(broker, name)
    return name


def produce(broker: BrokerProcess, topic: str, count: int = 10) -> None:
    with barnabas.sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition in range(PARTITIONS):
            for number in range(count):
                producer.send(topic, b"%d" % number, partition=partition)
        producer.flush()


def keeper_file(broker: BrokerProcess) -> str:
    assert broker.data is not None
    return str(broker.data / "keeper.db")


@pytest.fixture
def opened(broker: BrokerProcess, topic: str) -> Callable[..., ZookeeperConsumer]:
    def open_(consumer_id: str, **options: Any) -> ZookeeperConsumer:
        settings: dict[str, Any] = {
            "group_id": f"group-{topic}",
            "bootstrap_servers": broker.bootstrap_servers,
            "keeper_file": keeper_file(broker),
            "auto_offset_reset": "earliest",
            "rebalance_backoff_ms": 50,
            "rebalance_max_retries": 1_000,
            "zookeeper_session_timeout_ms": 60_000,
            **options,
        }
        return ZookeeperConsumer(topic, consumer_id=consumer_id, **settings)

    return open_


def until(consumer: ZookeeperConsumer, owned: list[int]) -> list[tuple[int, int]]:
    """What it reads until it owns these partitions."""
    read: list[tuple[int, int]] = []
    while [at.partition for at in consumer.assignment()] != owned:
        read += places(consumer.getmany(timeout=0.05))
    return read


def places(messages: list[Any]) -> list[tuple[int, int]]:
    return [(message.partition, message.offset) for message in messages]


def read(consumer: ZookeeperConsumer, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while len(found) < count:
        found += places(consumer.getmany(timeout=0.1))
    return found


def test_members_share_a_topic_and_read_on_where_others_left_off(
    opened: Callable[..., ZookeeperConsumer], broker: BrokerProcess, topic: str
) -> None:
    everything = [(p, n) for p in range(PARTITIONS) for n in range(10)]
    with opened("a") as a, opened("b") as b:
        assert sorted(read(a, 40)) == everything
        # `b` comes: `a` lets go when it next asks for messages, while `b` tries again.
        turns = threading.Thread(target=until, args=(b, [2, 3]))
        turns.start()
        assert until(a, [0, 1]) == []
        turns.join()
        produce(broker, topic)
        new = [(p, n) for p in range(PARTITIONS) for n in range(10, 20)]
        assert sorted(read(a, 20) + read(b, 20)) == new
        a.close()
        assert until(b, [0, 1, 2, 3]) == [], "all that was read has been committed"
        keeper = SqliteKeeper(keeper_file(broker))
        for partition in range(PARTITIONS):
            path = paths.offset(f"group-{topic}", TopicPartition(topic, partition))
            assert paths.read_offset(path, keeper.get(path).data) == 20
        assert keeper.children(paths.ids(f"group-{topic}")) == [b.member_id]
        keeper.close()


def test_commits_are_the_users_own_if_they_are_not_automatic(
    opened: Callable[..., ZookeeperConsumer],
) -> None:
    with opened("a", enable_auto_commit=False) as a:
        first = a.getone(timeout=WAIT_S)
        a.commit(first)
        at = TopicPartition(first.topic, first.partition)
        assert a.committed(at)[at].offset == first.offset + 1
        with pytest.raises(Fenced, match="is not assigned to this consumer"):
            a.commit({(first.topic, 99): 1})
    with opened("a", enable_auto_commit=False) as again:
        assert (first.partition, first.offset) not in read(again, 39)


def test_a_member_that_cannot_have_its_share_says_who_has_it(
    opened: Callable[..., ZookeeperConsumer],
) -> None:
    with opened("a") as a, opened("b", rebalance_max_retries=2) as b:
        until(a, [0, 1, 2, 3])
        with pytest.raises(RebalanceFailed, match=r"-2 is still owned by group-.*_a, after"):
            b.getmany()
        assert b.assignment() == []
        turns = threading.Thread(target=until, args=(a, [0, 1]))
        turns.start()
        until_quietly(b, [2, 3])
        turns.join()


def until_quietly(consumer: ZookeeperConsumer, owned: list[int]) -> None:
    while [at.partition for at in consumer.assignment()] != owned:
        try:
            consumer.getmany(timeout=0.05)
        except RebalanceFailed:
            continue


class OneStore:
    """Opens keepers in memory, on the topics that a broker has."""

    def __init__(self, file: str, topic: str) -> None:
        self.store = MemoryStore()
        self.keepers: list[MemoryKeeper] = []
        held = SqliteKeeper(file)
        ours = MemoryKeeper(self.store)
        ensure(ours, "/brokers/topics")
        ours.create(f"/brokers/topics/{topic}", held.get(f"/brokers/topics/{topic}").data)
        held.close()

    def open(self, listener: Listener) -> Keeper:
        keeper = MemoryKeeper(self.store, 6_000, listener)
        self.keepers.append(keeper)
        return keeper


def test_a_member_whose_session_expired_joins_again_and_commits_nothing_of_the_old(
    broker: BrokerProcess, topic: str
) -> None:
    one_store = OneStore(keeper_file(broker), topic)
    told: list[tuple[str, int]] = []
    flows = ZookeeperFlows(
        [topic],
        one_store.open,
        open_cluster(
            {"auto.offset.reset": "earliest", "max.poll.records": "10"},
            {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g"},
        ),
        attempts=Attempts(4, 50),
        on_assigned=lambda _, partitions, cause: told.append(("assigned", len(partitions))),
        on_revoked=lambda _, partitions, cause: told.append((cause.kind, len(partitions))),
    )
    first = run(flows.getmany())
    one_store.store.expire(one_store.keepers[0].session)
    with pytest.raises(Fenced):
        run(flows.commit())
    again: list[Any] = []
    while len(again) < 40:
        again += run(flows.getmany(timeout=0.1))
    assert {*places(first)} <= {*places(again)}, "what was not committed comes again"
    assert told == [("assigned", 4), ("expired", 4), ("assigned", 4)]
    run(flows.close())
    assert told[-1] == ("closed", 4)
    assert MemoryKeeper(one_store.store).children(paths.ids("g")) == []


def test_a_keeper_that_is_away_for_a_while_stops_no_reading(
    broker: BrokerProcess, topic: str
) -> None:
    one_store = OneStore(keeper_file(broker), topic)
    flows = ZookeeperFlows(
        [topic],
        one_store.open,
        open_cluster(
            {"auto.offset.reset": "earliest", "max.poll.records": "10"},
            {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g"},
        ),
        attempts=Attempts(4, 50),
    )
    found = places(run(flows.getmany()))
    one_store.store.disconnect(one_store.keepers[0].session)
    while len(found) < 40:
        found += places(run(flows.getmany(timeout=0.1)))
    one_store.keepers[0].reconnect()
    while not MemoryKeeper(one_store.store).exists(paths.owner("g", TopicPartition(topic, 3))):
        run(flows.getmany(timeout=0.1))
    assert sorted(found) == [(p, n) for p in range(PARTITIONS) for n in range(10)]
    run(flows.close())
    assert (
        paths.read_offset(
            "", MemoryKeeper(one_store.store).get(paths.offset("g", TopicPartition(topic, 3))).data
        )
        == 10
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"keeper_file": ""}, "needs zookeeper_connect, or keeper_file"),
        ({"zookeeper_connect": "h:1"}, "not both"),
        ({"keeper_file": "nowhere"}, "keeper_file=nowhere: there is no such file"),
        ({"group_id": "a/b"}, "names a node of the keeper"),
        ({"group_id": ""}, "names a node of the keeper"),
        ({"consumer_id": ".."}, "names a node"),
    ],
)
def test_mistakes_are_said_in_words(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    file = tmp_path / "keeper.db"
    file.touch()
    with pytest.raises(InvalidRequest, match=says):
        ZookeeperConsumer("t", **{"group_id": "g", "keeper_file": str(file), **options})
    with pytest.raises(InvalidRequest, match="patterns are for a Consumer"):
        ZookeeperConsumer("^t.*", group_id="g", keeper_file=str(file))


def test_the_example_of_the_docs_runs_and_is_typed(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    page = (ROOT / "docs/ZOOKEEPER_CONSUMER.md").read_text()
    [source] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "example.py"
    file.write_text(source)
    checked = _mypy(file)
    assert checked.returncode == 0, checked.stdout
    said: list[tuple[object, ...]] = []
    names: dict[str, Any] = {"__name__": "example", "print": lambda *words: said.append(words)}
    exec(compile(source.replace('"orders"', f'"{topic}"'), "example", "exec"), names)
    names["main"](broker.bootstrap_servers, keeper_file(broker))
    assert said[-1][1:] == (9, b"9")
