"""Groups of the new protocol with Java's consumer: assignors, patterns, changes of protocol."""

import shutil
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.cimpl import NewTopic

from tests.compat.groups.team import Member, Team, team_of
from tests.compat.test_groups_new import (
    NEW_OPTIONS,
    RANGE,
    UNIFORM,
    check_one_reader,
    group_type,
    wait_for_type,
)
from tests.process import REPLICAS, BrokerProcess, running_broker
from tests.support.java import Java
from tests.waiting import WAIT_S, until

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, java_tools: Java) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("broker")
    with running_broker(directory, NEW_OPTIONS) as running:
        yield running
    shutil.rmtree(directory, ignore_errors=True)


def wait_for_share(team: Team, member: Member) -> None:
    until(lambda: bool(member.owned), team.describe)


@pytest.mark.parametrize("assignor", [UNIFORM, RANGE])
def test_java_consumers_come_and_go(broker: BrokerProcess, topic: str, assignor: str) -> None:
    with team_of(broker.bootstrap_servers, topic, 6, ["java"] * 2, strategy=assignor) as team:
        team.write(30)
        team.wait_read()
        team.wait_committed()
        assert group_type(team) is ConsumerGroupType.CONSUMER
        team.add("confluent", assignor)
        team.wait_shared()
        team.write(30)
        team.wait_read()
        team.wait_committed()
        team.end(team.members[0])
        team.wait_shared()
        team.write(30)
        team.wait_read()
        team.wait_committed()
        check_one_reader(team)


def test_the_first_assignment_of_a_new_java_group_is_the_real_one(
    broker: BrokerProcess, topic: str
) -> None:
    """An empty one before it would call the listener with no partitions."""
    with team_of(broker.bootstrap_servers, topic, 4, ["java"], strategy=UNIFORM) as team:
        (member,) = team.members
        team.wait_shared()
        assert member.assigned == [[0, 1, 2, 3]]


def test_a_pattern_is_matched_by_the_broker(broker: BrokerProcess, topic: str) -> None:
    with Team(broker.bootstrap_servers, f"{topic}-a", 2) as team:
        member = team.add("java", UNIFORM, pattern=f"^{topic}-[a-c]")
        team.wait_shared()
        later = NewTopic(f"{topic}-b", 4, REPLICAS)
        team.admin.create_topics([later])[later.topic].result(WAIT_S)
        until(lambda: member.owned == [0, 1, 2, 3], team.describe)


def test_a_living_java_group_changes_to_the_new_protocol_and_back(
    broker: BrokerProcess, topic: str
) -> None:
    classic = "cooperative-sticky"
    with team_of(broker.bootstrap_servers, topic, 4, ["java"] * 2, strategy=classic) as team:
        for strategy, last in (
            (UNIFORM, ConsumerGroupType.CONSUMER),
            (classic, ConsumerGroupType.CLASSIC),
        ):
            for then in (ConsumerGroupType.CONSUMER, last):
                team.write(20)
                team.wait_read()
                team.wait_committed()
                newcomer = team.add("java", strategy)
                wait_for_share(team, newcomer)
                team.end(team.members[0])
                team.wait_shared()
                wait_for_type(team, then)
        team.write(20)
        team.wait_read()
        team.wait_committed()


def test_kafka_s_group_command_describes_a_new_group(
    java_tools: Java, broker: BrokerProcess, topic: str
) -> None:
    with team_of(broker.bootstrap_servers, topic, 2, ["confluent"], strategy=UNIFORM) as team:
        team.write(5)
        team.wait_read()
        team.wait_committed()
        asked = ("--bootstrap-server", team.bootstrap, "--group", team.group, "--describe")
        for more, word in (("--state", "uniform"), ("--members", "confluent-0")):
            done = java_tools.run(GROUPS, *asked, more)
            assert not done.returncode, done.stderr
            assert word in done.stdout
