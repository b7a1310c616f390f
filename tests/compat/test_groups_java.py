"""Groups in the eyes of Kafka's own tools: consumers, the group command, the offsets formatters."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat.groups.team import OPTIONS, Team
from tests.conftest import broker_with
from tests.process import BrokerProcess
from tests.support.java import Java
from tests.waiting import WAIT_S, until

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OFFSETS_FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
GROUP_FORMATTER = "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter"
QUIET_MS = 8_000  # after which there is nothing more to read
broker = broker_with(OPTIONS)


@pytest.fixture
def team(broker: BrokerProcess, topic: str) -> Iterator[Team]:
    with Team(broker.bootstrap_servers, topic, 2) as team:
        team.write(10)
        yield team


def console(
    java_tools: Java, team: Team, *arguments: str, timeout_ms: int = int(WAIT_S * 1000)
) -> list[str]:
    done = java_tools.run(
        CONSOLE, "--bootstrap-server", team.bootstrap, "--timeout-ms", str(timeout_ms), *arguments
    )
    assert "TimeoutException" in done.stderr or not done.returncode, done.stderr
    return done.stdout.splitlines()


def groups(java_tools: Java, team: Team, *arguments: str) -> str:
    done = java_tools.run(
        GROUPS, "--bootstrap-server", team.bootstrap, "--group", team.group, *arguments
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("assignor", ["Range", "RoundRobin", "Sticky", "CooperativeSticky"])
def test_a_java_consumer_reads_and_commits(java_tools: Java, team: Team, assignor: str) -> None:
    lines = console(
        java_tools, team, "--topic", team.topic, "--group", team.group, "--from-beginning",
        "--max-messages", "20", "--command-property",
        f"partition.assignment.strategy=org.apache.kafka.clients.consumer.{assignor}Assignor",
    )  # fmt: skip
    assert lines == ["x"] * 20
    assert team.committed() == {0: 10, 1: 10}


def test_a_java_consumer_shares_a_group_with_others(java_tools: Java, team: Team) -> None:
    team.add("confluent")
    team.wait_shared()
    team.wait_committed()
    described = groups(java_tools, team, "--describe", "--members", "--verbose")
    assert "confluent-0" in described
    assert f"{team.topic}:0,1" in described.replace(f"{team.topic}(0,1)", f"{team.topic}:0,1")


def test_the_group_command_shows_lag_and_moves_offsets(java_tools: Java, team: Team) -> None:
    team.add("confluent")
    team.wait_shared()
    team.wait_committed()
    team.end(team.members[0])
    team.write(5)
    rows = [
        line.split()
        for line in groups(java_tools, team, "--describe").splitlines()
        if line.startswith(team.group)
    ]
    # group, topic, partition, leader epoch or not, committed, end, lag: read from the numbers
    assert sorted(int(row[2]) for row in rows) == [0, 1]
    assert all("5" in row and "15" in row and "10" in row for row in rows), rows
    groups(java_tools, team, "--reset-offsets", "--to-earliest", "--execute", "--topic", team.topic)
    assert team.committed() == {0: 0, 1: 0}
    assert "Stable" not in groups(java_tools, team, "--describe", "--state")
    groups(java_tools, team, "--delete")
    assert team.committed() == {0: -1001, 1: -1001}


def test_kafkas_formatters_read_our_offsets_topic(java_tools: Java, team: Team) -> None:
    team.add("confluent")
    team.wait_shared()
    team.wait_read()
    team.wait_committed()
    offsets: list[Any] = []
    until(lambda: read_offsets(java_tools, team, offsets) == {0: 10, 1: 10}, lambda: offsets)
    generations: list[Any] = []

    def read_generations() -> list[Any]:
        found = read_formatted(java_tools, team, GROUP_FORMATTER)
        generations[:] = [
            each["value"]["data"] for each in found if each["key"]["data"]["group"] == team.group
        ]
        return generations

    until(lambda: read_generations() and generations[-1]["members"], lambda: generations)
    last = generations[-1]
    assert (last["protocolType"], last["protocol"]) == ("consumer", "range")
    assert [member["clientId"] for member in last["members"]] == ["confluent-0"]


def read_offsets(java_tools: Java, team: Team, found: list[Any]) -> dict[int, int]:
    found[:] = read_formatted(java_tools, team, OFFSETS_FORMATTER)
    return {
        each["key"]["data"]["partition"]: each["value"]["data"]["offset"]
        for each in found
        if each["key"]["data"]["group"] == team.group and each["value"] is not None
    }


def read_formatted(java_tools: Java, team: Team, formatter: str) -> list[dict[str, Any]]:
    """Objects one after the other; the formatters put nothing between them. On a busy machine Java
    may run out of its time before it has read them all: the caller asks again."""
    arguments = ("--topic", "__consumer_offsets", "--from-beginning", "--formatter", formatter)
    text = "".join(console(java_tools, team, *arguments, timeout_ms=QUIET_MS))
    decoder = json.JSONDecoder()
    found = []
    while text:
        each, end = decoder.raw_decode(text)
        found.append(each)
        text = text[end:]
    return found
