"""Delivery at a time on three brokers: delayers and brokers are killed while records become due.

No record is early, lost, or delivered twice to readers of committed records.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.consumer.message import RawMessage
from barnabas.model.errors import KafkaError
from barnabas.sync import Admin
from tests.client_e2e.delaying import DelayedSend, DelayerProcess, committed, now_ms, send
from tests.cluster.members import Cluster, running_cluster
from tests.waiting import until

PARTITIONS, RECORDS = 2, 240
SPREAD_MS = 20_000
KEPT = {"retention.ms": "-1"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
        for member in running.members.values():
            member.check_log()


def delivered(servers: str, topic: str) -> list[RawMessage]:
    try:
        return asyncio.run(committed(servers, topic))
    except (KafkaError, TimeoutError):  # a broker is away
        return []


def test_each_record_comes_once_and_not_early_through_kills_of_delayers_and_brokers(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    servers, holding = cluster.bootstrap_servers, f"{topic}-later"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        admin.create_topic(holding, partitions=PARTITIONS, replication_factor=3, configs=KEPT)
    chance = random.Random(11)
    began = now_ms()
    dues = {f"v{number}": began + chance.randrange(SPREAD_MS) for number in range(RECORDS)}
    send(
        servers,
        holding,
        [DelayedSend(value, str(due), topic, f"key-{value}") for value, due in dues.items()],
    )

    def arrived(least: int) -> None:
        until(lambda: len(delivered(servers, topic)) >= least, lambda: running.said)

    running = DelayerProcess(servers, tmp_path / "0.log", [holding])
    try:
        for number, member in enumerate(cluster.members.values(), 1):
            arrived(RECORDS * number // 8)
            running.kill()
            member.kill()
            running = DelayerProcess(servers, tmp_path / f"{number}.log", [holding])
            arrived(RECORDS * number // 8 + 1)
            member.start()
            cluster.wait_whole()
        arrived(RECORDS)
        running.check_running()
    finally:
        running.kill()
    found = delivered(servers, topic)
    assert Counter((one.value or b"").decode() for one in found) == Counter(dues.keys())
    early = [one for one in found if one.timestamp < dues[(one.value or b"").decode()]]
    assert early == []
    assert delivered(servers, f"{holding}.dlq") == []
