"""The consumer without a coordinator, with its group in a real ZooKeeper."""

from pathlib import Path
from uuid import UUID

import barnabas.sync
from barnabas.keeper import consumer_paths as paths
from barnabas.keeper.keeper import ensure
from barnabas.keeper.paths import TOPICS, topic_data
from barnabas.sync import ZookeeperConsumer
from tests.process import running_broker
from tests.waiting import WAIT_S
from tests.zookeeper.rooms import TIMEOUT_MS, ZookeeperRoom

COUNT = 40


def test_members_share_a_topic_through_zookeeper(room: ZookeeperRoom, tmp_path: Path) -> None:
    keeper = room.open().keeper
    ensure(keeper, TOPICS)
    keeper.create(f"{TOPICS}/t", topic_data(UUID(int=1), {p: [1] for p in range(4)}))
    with running_broker(tmp_path / "data", {}) as broker:
        with barnabas.sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t", partitions=4)
        with barnabas.sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(COUNT):
                producer.send("t", b"%d" % number, partition=number % 4)

        def member(name: str) -> ZookeeperConsumer:
            return ZookeeperConsumer(
                "t",
                zookeeper_connect=room.address,
                group_id="g",
                consumer_id=name,
                bootstrap_servers=broker.bootstrap_servers,
                auto_offset_reset="earliest",
                rebalance_max_retries=1_000,
                rebalance_backoff_ms=50,
                zookeeper_session_timeout_ms=TIMEOUT_MS,
            )

        read: list[int] = []
        with member("a") as a:
            read += [int(message.value or b"") for message in a.getmany(10, timeout=WAIT_S)]
            with member("b") as b:
                while [at.partition for at in b.assignment()] != [2, 3]:
                    for one in (a, b):
                        read += [int(message.value or b"") for message in one.getmany(5, 0.05)]
                while len(read) < COUNT:
                    for one in (a, b):
                        read += [int(message.value or b"") for message in one.getmany(5, 0.05)]
                assert sorted(read) == [*range(COUNT)], "each of them once"
            while len(a.assignment()) < 4:
                a.getmany(timeout=0.05)
        assert keeper.children(paths.ids("g")) == []
        assert [keeper.get(f"/consumers/g/offsets/t/{p}").data for p in range(4)] == [b"10"] * 4
