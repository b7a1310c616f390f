"""Groups of the new protocol, with librdkafka: shares, handovers, deaths, stalls, changes.

Nobody killed: every record by one member. Somebody killed: every record at least once.
"""

import signal

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.cimpl import NewPartitions

from tests.compat.groups.team import OPTIONS, SESSION_MS, Team, team_of
from tests.conftest import StartBroker, broker_with
from tests.process import BrokerProcess
from tests.waiting import WAIT_S, until

UNIFORM, RANGE = "server-uniform", "server-range"
NEW_OPTIONS = OPTIONS | {
    "group.consumer.max.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "200",
}
SHORT = NEW_OPTIONS | {"group.consumer.session.timeout.ms": "6000"}
"""Where members are to be lost."""
broker = broker_with(NEW_OPTIONS)


def group_type(team: Team) -> ConsumerGroupType:
    described = team.admin.describe_consumer_groups([team.group])[team.group].result(WAIT_S)
    found: ConsumerGroupType = described.type
    return found


def check_one_reader(team: Team) -> None:
    """No record was read by two members. (librdkafka may read on from an older position after
    what it has was changed, its issue 4637: its own affair.)"""
    readers: dict[tuple[int, int], set[str]] = {}
    for member in (*team.past, *team.members):
        for read in member.read:
            readers.setdefault(read, set()).add(member.name)
    shared = {read: names for read, names in readers.items() if len(names) > 1}
    assert not shared, (shared, team.describe())


def wait_for_type(team: Team, wanted: ConsumerGroupType) -> None:
    until(lambda: group_type(team) is wanted, team.describe)


@pytest.mark.parametrize("assignor", [UNIFORM, RANGE])
def test_members_come_and_go_and_every_record_has_one_reader(
    broker: BrokerProcess, topic: str, assignor: str
) -> None:
    with team_of(broker.bootstrap_servers, topic, 6, ["confluent"] * 2, strategy=assignor) as team:
        team.write(50)
        team.wait_read()
        team.wait_committed()
        newcomer = team.add("confluent", assignor)
        team.wait_shared()
        team.write(50)
        team.wait_read()
        team.wait_committed()
        assert group_type(team) is ConsumerGroupType.CONSUMER
        team.end(team.members[0])
        team.wait_shared()
        assert newcomer.owned
        team.write(50)
        team.wait_read()
        team.wait_committed()
        check_one_reader(team)


def test_who_stays_reads_on_while_others_come(broker: BrokerProcess, topic: str) -> None:
    """What a member keeps is never taken from it, not even for a moment."""
    with team_of(broker.bootstrap_servers, topic, 4, ["confluent"], strategy=UNIFORM) as team:
        first = team.members[0]
        team.add("confluent", UNIFORM)
        team.wait_shared()
        assert first.changes <= 3  # nothing, all, half
        kept = set(first.owned)
        team.add("confluent", UNIFORM)
        team.wait_shared()
        assert set(first.owned) <= kept
        assert sorted(len(member.owned) for member in team.members) == [1, 1, 2]


def test_what_a_killed_member_had_is_taken_over(start_broker: StartBroker, topic: str) -> None:
    servers = start_broker(SHORT).bootstrap_servers
    with team_of(servers, topic, 4, ["confluent"] * 2, strategy=UNIFORM) as team:
        team.write(20)
        team.wait_read()
        team.end(team.members[0], signal.SIGKILL)
        team.write(20)
        team.wait_shared()
        team.wait_read()
        team.wait_committed()


def test_a_stalled_member_loses_its_share_and_gets_a_new_one(
    start_broker: StartBroker, topic: str
) -> None:
    servers = start_broker(SHORT).bootstrap_servers
    with team_of(servers, topic, 4, ["confluent"] * 2, strategy=UNIFORM) as team:
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


def test_a_static_member_restarts_without_anybody_noticing(
    broker: BrokerProcess, topic: str
) -> None:
    with Team(broker.bootstrap_servers, topic, 4) as team:
        first = team.add("confluent", UNIFORM, instance="one")
        second = team.add("confluent", UNIFORM, instance="two")
        team.wait_shared()
        team.write(10)
        team.wait_read()
        team.wait_committed()
        had, changes = list(second.owned), first.changes
        team.end(second)
        back = team.add("confluent", UNIFORM, instance="two")
        until(lambda: back.owned == had, team.describe)
        team.write(10)
        team.wait_read()
        check_one_reader(team)
        assert first.changes == changes


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_group_goes_on_when_its_broker_comes_back(
    start_broker: StartBroker, topic: str, how: str
) -> None:
    own = start_broker(NEW_OPTIONS)
    with team_of(own.bootstrap_servers, topic, 4, ["confluent"] * 2, strategy=UNIFORM) as team:
        team.write(30)
        team.wait_read()
        team.wait_committed()
        before = [list(member.owned) for member in team.members]
        if how == "killed":
            own.kill()
        else:
            own.stop()
        own.start()
        team.write(30)
        team.wait_read()
        team.wait_shared()
        team.wait_committed()
        assert [member.owned for member in team.members] == before


def test_partitions_and_topics_that_come_later(broker: BrokerProcess, topic: str) -> None:
    with team_of(
        broker.bootstrap_servers, topic, 2, ["confluent"] * 2, strategy=UNIFORM, pattern=f"^{topic}"
    ) as team:
        team.admin.create_partitions([NewPartitions(topic, 6)])[topic].result(WAIT_S)
        team.partitions = 6
        team.wait_shared()
        team.write(10)
        team.wait_read()


@pytest.mark.parametrize("classic", ["range", "cooperative-sticky"])
def test_a_living_group_changes_to_the_new_protocol_and_back(
    broker: BrokerProcess, topic: str, classic: str
) -> None:
    """One member after the other is replaced, there and back, and reading goes on."""
    with team_of(broker.bootstrap_servers, topic, 6, ["confluent"] * 2, strategy=classic) as team:
        assert group_type(team) is ConsumerGroupType.CLASSIC
        for strategy, mixed, last in (
            (UNIFORM, ConsumerGroupType.CONSUMER, ConsumerGroupType.CONSUMER),
            (classic, ConsumerGroupType.CONSUMER, ConsumerGroupType.CLASSIC),
        ):
            for then in (mixed, last):
                team.write(20)
                team.wait_read()
                team.wait_committed()
                team.end(team.members[0])
                team.add("confluent", strategy)
                team.wait_shared()
                wait_for_type(team, then)
        team.write(20)
        team.wait_read()
        team.wait_committed()
        check_one_reader(team)


def test_administrators_see_epochs_and_types(broker: BrokerProcess, topic: str) -> None:
    with team_of(broker.bootstrap_servers, topic, 4, ["confluent"] * 2, strategy=UNIFORM) as team:
        listed = team.admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER})
        assert team.group in [group.group_id for group in listed.result(WAIT_S).valid]
        classic = team.admin.list_consumer_groups(types={ConsumerGroupType.CLASSIC})
        assert team.group not in [group.group_id for group in classic.result(WAIT_S).valid]
        described = team.admin.describe_consumer_groups([team.group])[team.group].result(WAIT_S)
        assert described.state is ConsumerGroupState.STABLE
        owned = [
            [each.partition for each in member.assignment.topic_partitions]
            for member in described.members
        ]
        assert sorted(map(sorted, owned)) == sorted(member.owned for member in team.members)
        for member in tuple(team.members):
            team.end(member)
        deleted = team.admin.delete_consumer_groups([team.group])[team.group]
        deleted.result(WAIT_S)
