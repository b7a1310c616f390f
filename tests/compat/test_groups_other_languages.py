"""Groups of Java's and JavaScript's consumers, and of several languages in one.

Nobody killed: every record exactly once. Somebody killed: every record at least once.
"""

import signal

import pytest

from tests.compat.groups.team import OPTIONS, Team, team_of
from tests.conftest import broker_with
from tests.process import BrokerProcess
from tests.support.java import Java
from tests.support.node import Node
from tests.waiting import until

ASSIGNORS = ["range", "roundrobin", "sticky", "cooperative-sticky"]
broker = broker_with(OPTIONS)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_in_java_come_and_go_and_every_record_is_read_once(
    java_client: Java, broker: BrokerProcess, topic: str, assignor: str
) -> None:
    with team_of(broker.bootstrap_servers, topic, 6, ["java"] * 2, strategy=assignor) as team:
        team.come_and_go("java", assignor, records=20)
        team.check_read_once()


def test_a_member_in_java_is_killed_and_another_stalls(
    java_client: Java, broker: BrokerProcess, topic: str
) -> None:
    servers = broker.bootstrap_servers
    with team_of(servers, topic, 4, ["java"] * 3, session_ms=3_000) as team:
        team.lose_one_and_stall_one()


def test_a_static_member_in_java_restarts_without_anybody_noticing(
    java_client: Java, broker: BrokerProcess, topic: str
) -> None:
    with Team(broker.bootstrap_servers, topic, 4) as team:
        first = team.add("java", instance="one")
        second = team.add("java", instance="two")
        team.wait_shared()
        team.write(10)
        team.wait_read()
        team.wait_committed()
        had, changes = list(second.owned), first.changes
        team.end(second, signal.SIGKILL)
        back = team.add("java", instance="two")
        until(lambda: back.owned == had, team.describe)
        team.write(10)
        team.wait_read()
        team.check_read_once()
        assert first.changes == changes


def test_a_pattern_in_java_finds_topics_that_come_later(
    java_client: Java, broker: BrokerProcess, topic: str
) -> None:
    with Team(broker.bootstrap_servers, f"{topic}-b", 2) as team:
        team.add("java", pattern=f"^{topic}-[a-c]")
        team.wait_shared()
        team.write(10)
        team.wait_read()
        with Team(broker.bootstrap_servers, f"{topic}-c", 3) as later:
            later.write(10)
            member = team.members[0]
            until(lambda: {(2, 9), (1, 9)} <= set(member.read), team.describe)
        with Team(broker.bootstrap_servers, f"{topic}-d", 5) as other:
            other.write(1)
        assert member.owned == [0, 1, 2]


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_java_and_librdkafka_and_kafka_python_share_one_group(
    java_client: Java, broker: BrokerProcess, topic: str, assignor: str
) -> None:
    libraries = ["java", "confluent", "kafka-python"]
    with team_of(broker.bootstrap_servers, topic, 6, libraries, strategy=assignor) as team:
        team.write(20)
        team.wait_read()
        assert [len(member.owned) for member in team.members] == [2, 2, 2]
        for member in tuple(team.members[:2]):  # the leader may be either of them
            team.end(member)
            team.wait_shared()
            team.write(10)
            team.wait_read()
        team.check_read_once()


def test_members_of_kafkajs_come_and_go_and_every_record_is_read_once(
    kafkajs: Node, broker: BrokerProcess, topic: str
) -> None:
    with team_of(broker.bootstrap_servers, topic, 6, ["kafkajs"] * 2) as team:
        team.come_and_go("kafkajs", records=20)
        team.check_read_once()


def test_a_member_of_kafkajs_is_killed_and_another_stalls(
    kafkajs: Node, broker: BrokerProcess, topic: str
) -> None:
    with team_of(broker.bootstrap_servers, topic, 4, ["kafkajs"] * 3, session_ms=3_000) as team:
        team.lose_one_and_stall_one()
