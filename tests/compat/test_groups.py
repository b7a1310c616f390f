"""Groups of real consumers: shares, handovers, deaths, stalls, and a broker that goes away.

Nobody killed: every record exactly once. Somebody killed: every record at least once.
"""

import signal

import pytest

from tests.compat.groups.team import OPTIONS, Team, team_of
from tests.conftest import StartBroker, broker_with
from tests.process import BrokerProcess
from tests.waiting import WAIT_S, until

LIBRARIES = ["confluent", "kafka-python", "aiokafka"]
STRATEGIES = [
    ("confluent", "range"),
    ("confluent", "roundrobin"),
    ("confluent", "cooperative-sticky"),
    ("kafka-python", "range"),
    ("kafka-python", "roundrobin"),
    ("kafka-python", "cooperative-sticky"),
    ("aiokafka", "range"),
    ("aiokafka", "roundrobin"),
]
broker = broker_with(OPTIONS)


@pytest.mark.parametrize(("library", "strategy"), STRATEGIES)
def test_members_come_and_go_and_every_record_is_read_once(
    broker: BrokerProcess, topic: str, library: str, strategy: str
) -> None:
    with team_of(broker.bootstrap_servers, topic, 6, [library] * 2, strategy=strategy) as team:
        team.come_and_go(library, strategy, records=50)
        team.check_read_once()


def test_three_libraries_share_one_group(broker: BrokerProcess, topic: str) -> None:
    with team_of(broker.bootstrap_servers, topic, 6, LIBRARIES) as team:
        team.write(50)
        team.wait_read()
        assert [len(member.owned) for member in team.members] == [2, 2, 2]
        for member in tuple(team.members[1:]):
            team.end(member)
            team.wait_shared()
            team.write(20)
            team.wait_read()
        team.check_read_once()


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_a_killed_member_had_is_taken_over(
    broker: BrokerProcess, topic: str, library: str
) -> None:
    with team_of(broker.bootstrap_servers, topic, 4, [library] * 2, session_ms=3_000) as team:
        team.write(20)
        team.wait_read()
        team.end(team.members[0], signal.SIGKILL)
        team.write(20)
        team.wait_shared()
        team.wait_read()
        team.wait_committed()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_stalled_member_loses_its_share_and_gets_a_new_one(
    broker: BrokerProcess, topic: str, library: str
) -> None:
    with team_of(broker.bootstrap_servers, topic, 4, [library] * 2, session_ms=3_000) as team:
        stalled, other = team.members
        stalled.send(signal.SIGSTOP)
        team.write(20)
        team.wait_shared([other])
        team.wait_read()
        stalled.send(signal.SIGCONT)
        team.wait_shared()
        team.write(20)
        team.wait_read()
        team.wait_committed()


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_group_goes_on_when_its_broker_comes_back(
    start_broker: StartBroker, topic: str, library: str, how: str
) -> None:
    own = start_broker(OPTIONS)
    with team_of(own.bootstrap_servers, topic, 4, [library] * 2) as team:
        team.write(30)
        team.wait_read()
        team.wait_committed()
        before = team.committed()
        if how == "killed":
            own.kill()
        else:
            own.stop()
        own.start()
        assert team.committed() == before
        team.write(30)
        team.wait_read()
        team.wait_shared()
        team.wait_committed()


@pytest.mark.parametrize("library", ["confluent", "kafka-python"])
def test_a_static_member_restarts_without_anybody_noticing(
    broker: BrokerProcess, topic: str, library: str
) -> None:
    with Team(broker.bootstrap_servers, topic, 4) as team:
        first = team.add(library, instance="one")
        second = team.add(library, instance="two")
        team.wait_shared()
        team.write(10)
        team.wait_read()
        team.wait_committed()
        had, changes = list(second.owned), first.changes
        team.end(second, signal.SIGKILL)
        back = team.add(library, instance="two")
        until(lambda: back.owned == had, team.describe)
        team.write(10)
        team.wait_read()
        team.check_read_once()
        assert first.changes == changes


def test_two_members_with_one_instance_id_cannot_both_stay(
    broker: BrokerProcess, topic: str
) -> None:
    with Team(broker.bootstrap_servers, topic, 4) as team:
        first = team.add("confluent", instance="one")
        team.wait_shared()
        twin = team.add("confluent", instance="one")
        until(lambda: not first.is_running, team.describe)
        team.end(first)
        assert "fenced" in first.noise
        team.wait_shared([twin])


def test_partitions_added_later_are_shared_out_too(broker: BrokerProcess, topic: str) -> None:
    from confluent_kafka.cimpl import NewPartitions

    with team_of(broker.bootstrap_servers, topic, 2, ["confluent"] * 2) as team:
        team.admin.create_partitions([NewPartitions(topic, 6)])[topic].result(WAIT_S)
        team.partitions = 6
        team.wait_shared()
        team.write(10)
        team.wait_read()
