"""Our consumer in one group with those of others, through twenty rebalances.

Members come and go in good order, so every record must be read exactly once; the group must come
to rest each time with every partition owned by one of them.
"""

import pytest

from tests.client_e2e.conftest import Served
from tests.compat.groups.team import Team
from tests.process import BrokerProcess

PARTITIONS = 6
REBALANCE_IN_PROGRESS = 27
# Of which each comes once and goes once, after the four who are there from the beginning.
VISITS = 8
VISITS_ON_KAFKA = 2
EAGER = ["barnabas", "confluent", "aiokafka", "java"]
COOPERATIVE = ["barnabas", "confluent", "java"]


def visits_on(served: Served) -> int:
    return VISITS if isinstance(served, BrokerProcess) else VISITS_ON_KAFKA


def rebalance(team: Team, libraries: list[str], strategy: str, visits: int) -> None:
    for library in libraries:
        team.add(library, strategy)
        team.write(5)
    team.wait_shared()
    quick = [library for library in libraries if library != "java"]  # to start
    for number in range(visits):
        visitor = team.add(quick[number % len(quick)], strategy)
        team.write(5)
        team.wait_shared()
        # Now and then it is one of the first who goes, so that leaders change too.
        leaving = team.members[number % 3] if number % 2 else visitor
        if leaving.library == "java":
            leaving = visitor
        team.end(leaving)
        team.write(5)
        team.wait_shared()
    team.wait_read()
    check_read_once(team)
    team.wait_committed()


def check_read_once(team: Team) -> None:
    """But for what a member read whose commit the coordinator refused while it rebalanced."""
    refused = {
        read
        for member in (*team.past, *team.members)
        if REBALANCE_IN_PROGRESS in member.errors
        for read in member.read
    }
    twice = [read for read, count in team.read_counts().items() if count > 1]
    assert refused.issuperset(twice), (twice, team.describe())


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_eager_members_of_four_libraries(
    java_client: object, served: Served, topic: str, strategy: str
) -> None:
    with Team(served.bootstrap_servers, topic, PARTITIONS) as team:
        rebalance(team, EAGER, strategy, visits_on(served) if strategy == "range" else 1)


def test_cooperative_members_of_three_libraries(
    java_client: object, served: Served, topic: str
) -> None:
    with Team(served.bootstrap_servers, topic, PARTITIONS) as team:
        rebalance(team, COOPERATIVE, "cooperative-sticky", visits_on(served))


def test_members_of_the_new_protocol(java_client: object, served: Served, topic: str) -> None:
    with Team(served.bootstrap_servers, topic, PARTITIONS) as team:
        rebalance(team, COOPERATIVE, "server-uniform", 2)
