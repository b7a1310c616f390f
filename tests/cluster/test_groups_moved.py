"""Groups of real clients whose coordinator dies: another broker takes over, and nobody rejoins.

With BROKERS=3 the suites of groups run on a cluster; here its brokers are killed one by one.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.cluster.members import Cluster, running_cluster
from tests.compat.groups.team import OPTIONS, SESSION_MS, Team
from tests.raw import RawClient
from tests.waiting import until

GROUPS = OPTIONS | {
    "group.consumer.max.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "200",
}
PARTITIONS = 4


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home: Path = tmp_path_factory.mktemp("cluster")
    with running_cluster(home, options=GROUPS) as running:
        yield running
        for member in running.members.values():
            member.check_log()


def coordinator(cluster: Cluster, group: str) -> int:
    """As some broker that runs tells it; -1: nobody, for now."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    member = next(each for each in cluster.members.values() if each.is_running())
    with RawClient("127.0.0.1", member.listen) as client:
        (found,) = client.call(request, 4, FindCoordinatorResponse).coordinators
    running = found.node_id > 0 and cluster.members[found.node_id].is_running()
    return found.node_id if running and not found.error_code else -1


def move(cluster: Cluster, team: Team, how: str, times: int = 2) -> None:
    """Coordinators go, one after the other; each comes back when another has taken over."""
    for _ in range(times):
        until(lambda: coordinator(cluster, team.group) > 0)
        before = coordinator(cluster, team.group)
        member = cluster.members[before]
        if how == "killed":
            member.kill()
        else:
            assert member.stop() == 0
        until(lambda: coordinator(cluster, team.group) > 0, team.describe)
        team.write(20)
        if len(team.members) > 1:  # nobody reads what is a static member's that is away
            team.wait_read()
        member.start()
        cluster.wait_whole()


@pytest.mark.parametrize("how", ["killed", pytest.param("stopped", marks=pytest.mark.several)])
@pytest.mark.parametrize(
    ("library", "strategy"),
    [
        ("confluent", "range"),
        ("confluent", "server-uniform"),
        pytest.param("confluent", "cooperative-sticky", marks=pytest.mark.several),
        pytest.param("kafka-python", "range", marks=pytest.mark.several),
        pytest.param("aiokafka", "range", marks=pytest.mark.several),
    ],
)
def test_a_group_goes_on_where_it_was_with_the_shares_it_had(
    cluster: Cluster, topic: str, library: str, strategy: str, how: str
) -> None:
    with Team(cluster.bootstrap_servers, topic, PARTITIONS, replicas=3) as team:
        for _ in range(2):
            team.add(library, strategy)
        team.wait_shared()
        team.write(20)
        team.wait_read()
        team.wait_committed()
        move(cluster, team, how)
        team.write(20)
        team.wait_read()
        team.wait_shared()
        team.wait_committed()


@pytest.mark.several
@pytest.mark.parametrize("strategy", ["range", "server-uniform"])
def test_static_members_keep_their_shares_through_it_and_through_their_own_restart(
    cluster: Cluster, topic: str, strategy: str
) -> None:
    with Team(cluster.bootstrap_servers, topic, PARTITIONS, replicas=3) as team:
        first, second = (team.add("confluent", strategy, instance=name) for name in ("one", "two"))
        team.wait_shared()
        team.write(20)
        team.wait_read()
        team.wait_committed()
        had, changes = (list(first.owned), list(second.owned)), first.changes
        move(cluster, team, "killed")
        team.end(second)
        move(cluster, team, "killed", times=1)
        back = team.add("confluent", strategy, instance="two")
        until(lambda: back.owned == had[1], team.describe)
        team.write(20)
        team.wait_read()
        team.wait_committed()
        assert first.owned == had[0]
        assert first.changes == changes
