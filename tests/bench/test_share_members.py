"""The members of share groups that the benchmarks drive, on a real broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import librdkafka, share_herd
from bench.shares import OPTIONS, PRODUCE
from bench.sides import BARNABAS, Side
from tests.process import running_broker

RECORDS = 1_000


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    home: Path = tmp_path_factory.mktemp("shares")
    with running_broker(home, OPTIONS) as broker:
        yield Side(BARNABAS, broker.bootstrap_servers, broker.pid)


@pytest.fixture
def topic(side: Side) -> Iterator[str]:
    with side.topic() as name:
        librdkafka.produce(side.bootstrap_servers, name, RECORDS - 1, 100, PRODUCE)
        yield name


def test_members_receive_each_record_once_and_accept_it(side: Side, topic: str) -> None:
    with share_herd.joined(side.bootstrap_servers, topic, "all", 3) as members:
        assert share_herd.consume(members, RECORDS) > 0
    with share_herd.joined(side.bootstrap_servers, topic, "all", 1) as (again,):
        again.send_fetch([])
        assert again.receive_fetch() == []


def test_members_accept_records_one_by_one(side: Side, topic: str) -> None:
    with share_herd.joined(side.bootstrap_servers, topic, "single", 3) as members:
        assert share_herd.accept_one_by_one(members, RECORDS) > 0
    with share_herd.joined(side.bootstrap_servers, topic, "single", 1) as (again,):
        again.send_fetch([])
        assert again.receive_fetch() == []


def test_idle_members_heartbeat_and_fetch_nothing(side: Side) -> None:
    with side.topic(2) as name:
        members = share_herd.join(side.bootstrap_servers, name, ["idle"], 4)
        beats = share_herd.IdleMembers(members).live(interval_s=0.2, seconds=1.0)
        assert beats.count >= len(members)
        for member in members:
            member.close()
