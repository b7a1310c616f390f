"""Kafka's own tools for clusters, unchanged, on three brokers of ours, of which some are down."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from tests.cluster.members import Cluster, running_cluster
from tests.support.java import Java
from tests.waiting import WAIT_S, until

TOOLS = "org.apache.kafka.tools"
REASSIGN = "reassign.ReassignPartitionsCommand"
SEGMENT_BYTES = 200_000  # of these clusters

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, java_tools: Java) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("cluster")
    # By itself, the first replica would lead again before the tool is asked to see to it.
    options = {"auto.leader.rebalance.enable": "false"}
    with running_cluster(home, options=options) as running:
        yield running
        for member in running.members.values():
            member.check_log()


@pytest.fixture
def tool(java_tools: Java, cluster: Cluster) -> Tool:
    """Runs a tool by its class and gives what it printed."""

    def run(name: str, *arguments: str, first: tuple[str, ...] = ()) -> str:
        servers = ("--bootstrap-server", cluster.bootstrap_servers)
        done = java_tools.run(f"{TOOLS}.{name}", *first, *servers, *arguments)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def whole(cluster: Cluster) -> Iterator[Cluster]:
    """Everybody there, before and after."""
    cluster.wait_whole()
    yield cluster
    for member in cluster.members.values():
        if not member.is_running():
            member.start()
    cluster.wait_whole()


def create(tool: Tool, topic: str, *assignment: str, **configs: str) -> None:
    more = [part for name, value in configs.items() for part in ("--config", f"{name}={value}")]
    tool(
        *("TopicCommand", "--create", "--topic", topic),
        *("--replica-assignment", ",".join(assignment), *more),
    )


def write(cluster: Cluster, topic: str, count: int = 10, size: int = 100) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "batch.size": SEGMENT_BYTES // 2}
    )
    told: list[KafkaError | None] = []
    for _ in range(count):
        producer.produce(
            topic, b"x" * size, partition=0, on_delivery=lambda error, _: told.append(error)
        )
    assert producer.flush(WAIT_S) == 0
    assert [error for error in told if error is not None] == []


def listed(tool: Tool, topic: str, *condition: str) -> list[int]:
    """The partitions of the topic that kafka-topics finds in such a state."""
    shown = tool("TopicCommand", "--describe", "--topic", topic, *condition)
    return [int(number) for number in re.findall(r"\tPartition: (\d+)\t", shown)]


def leader(cluster: Cluster, topic: str, partition: int = 0) -> int:
    return cluster.states()[topic, partition].leader


def plan(directory: Path, topic: str, *replicas: list[int]) -> str:
    """The file that says where partitions are to be."""
    wanted = [
        {"topic": topic, "partition": number, "replicas": each}
        for number, each in enumerate(replicas)
    ]
    file = directory / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))
    return str(file)


@pytest.mark.several
def test_kafka_topics_finds_what_is_under_replicated_at_its_least_and_without_a_leader(
    tool: Tool, whole: Cluster, topic: str
) -> None:
    alone = f"{topic}-alone"
    create(tool, topic, "1:2:3", "2:3:1", **{"min.insync.replicas": "2"})
    create(tool, alone, "3")
    under, least = "--under-replicated-partitions", "--at-min-isr-partitions"
    below, nobody = "--under-min-isr-partitions", "--unavailable-partitions"
    assert listed(tool, topic) == [0, 1]
    assert listed(tool, topic, under) == []
    whole.members[3].stop()
    until(lambda: leader(whole, alone) < 0, whole.states)
    assert listed(tool, topic, under) == [0, 1]
    assert listed(tool, topic, least) == [0, 1]
    assert listed(tool, topic, below) == []
    assert listed(tool, alone, nobody) == [0]
    whole.members[2].stop()
    until(lambda: leader(whole, topic, 1) == 1, whole.states)
    assert listed(tool, topic, below) == [0, 1]


def test_kafka_leader_election_gives_leadership_back_and_says_where_it_was(
    tool: Tool, whole: Cluster, topic: str
) -> None:
    create(tool, topic, "2:1:3", "1:2:3")
    whole.members[2].restart()
    whole.wait_whole()
    assert leader(whole, topic) != 2
    shown = tool(
        *("LeaderElectionCommand", "--election-type", "preferred"),
        *("--topic", topic, "--partition", "0"),
    )
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in shown
    until(lambda: leader(whole, topic) == 2, whole.states)
    shown = tool(
        *("LeaderElectionCommand", "--election-type", "preferred"),
        *("--topic", topic, "--partition", "1"),
    )
    assert f"Valid replica already elected for partitions {topic}-1" in shown
    tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    states = whole.states()
    assert all(state.leader == state.replicas[0] for state in states.values())


@pytest.mark.several
def test_an_unclean_election_is_held_only_when_it_is_asked_for(
    tool: Tool, whole: Cluster, topic: str
) -> None:
    create(tool, topic, "1:2", **{"min.insync.replicas": "1"})
    write(whole, topic, 5)
    whole.members[2].stop()
    until(lambda: whole.states()[topic, 0].in_sync == [1], whole.states)
    write(whole, topic, 5)
    whole.members[1].kill()
    whole.members[2].start()
    until(lambda: leader(whole, topic) < 0, whole.states)
    assert listed(tool, topic, "--unavailable-partitions") == [0]
    shown = tool(
        *("LeaderElectionCommand", "--election-type", "unclean"),
        *("--topic", topic, "--partition", "0"),
    )
    assert f"Successfully completed leader election (UNCLEAN) for partitions {topic}-0" in shown
    until(lambda: leader(whole, topic) == 2, whole.states)
    shown = tool("GetOffsetShell", "--topic", topic)
    assert shown.strip() == f"{topic}:0:5"
    write(whole, topic, 1)


def test_kafka_reassign_partitions_plans_moves_verifies_and_ends(
    tool: Tool, whole: Cluster, topic: str, tmp_path: Path
) -> None:
    create(tool, topic, "1:2", "2:3")
    write(whole, topic, 100)
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    shown = tool(
        *(REASSIGN, "--generate", "--topics-to-move-json-file", str(topics)),
        *("--broker-list", "1,2,3"),
    )
    now = json.loads(shown.split("Current partition replica assignment\n")[1].splitlines()[0])
    assert [each["replicas"] for each in now["partitions"]] == [[1, 2], [2, 3]]
    assert "Proposed partition reassignment configuration" in shown
    file = ("--reassignment-json-file", plan(tmp_path, topic, [3, 1], [1, 2, 3]))
    shown = tool(REASSIGN, "--execute", *file, "--throttle", "50000000")
    assert "The inter-broker throttle limit was set to 50000000 B/s" in shown
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in shown
    until(
        lambda: "still in progress" not in tool(REASSIGN, "--verify", *file),
        whole.states,
    )
    states = whole.states()
    assert [states[topic, number].replicas for number in (0, 1)] == [[3, 1], [1, 2, 3]]
    assert "No partition reassignments found." in tool(REASSIGN, "--list")
    assert tool("GetOffsetShell", "--topic", topic).split() == [f"{topic}:0:100", f"{topic}:1:0"]
    described = tool("TopicCommand", "--describe", "--topic", topic)
    assert "throttled" not in described


@pytest.mark.several
def test_a_move_that_takes_long_is_listed_and_given_up(
    tool: Tool, whole: Cluster, topic: str, tmp_path: Path
) -> None:
    create(tool, topic, "1:2")
    write(whole, topic, 300, 10_000)
    file = ("--reassignment-json-file", plan(tmp_path, topic, [2, 3]))
    tool(REASSIGN, "--execute", *file, "--throttle", "1000")
    shown = tool(REASSIGN, "--list")
    assert f"{topic}-0: replicas: 2,3,1. adding: 3. removing: 1." in shown
    shown = tool(REASSIGN, "--verify", *file, "--preserve-throttles")
    assert f"Reassignment of partition {topic}-0 is still in progress" in shown
    shown = tool(REASSIGN, "--cancel", *file)
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in shown
    until(
        lambda: sorted(whole.states()[topic, 0].replicas) == [1, 2],
        whole.states,
    )
    assert "None of the specified partition reassignments are active." in tool(
        REASSIGN, "--cancel", *file
    )


@pytest.mark.several
def test_the_replicas_are_the_same_to_kafkas_own_eyes(
    tool: Tool, whole: Cluster, topic: str
) -> None:
    create(tool, topic, "1:2:3", "2:3:1", "3:1:2")
    write(whole, topic, 200)
    shown = tool("LogDirsCommand", "--describe", "--topic-list", topic)
    report = json.loads(shown.splitlines()[-1])
    assert [each["broker"] for each in report["brokers"]] == [1, 2, 3]
    sizes = {
        (found["partition"], found["size"], found["offsetLag"])
        for each in report["brokers"]
        for directory in each["logDirs"]
        for found in directory["partitions"]
    }
    assert len(sizes) == 3, sizes  # one for each partition: every replica says the same


@pytest.mark.several
def test_the_cluster_tool_names_it_and_its_brokers(tool: Tool, whole: Cluster) -> None:
    shown = tool("ClusterTool", first=("cluster-id",))
    assert f"Cluster ID: {whole.metadata().cluster_id}" in shown
    shown = tool("ClusterTool", first=("list-endpoints",))
    for address in whole.bootstrap_servers.split(","):
        host, port = address.split(":")
        assert re.search(rf"\b{host}\s+{port}\b", shown), shown
