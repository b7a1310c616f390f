"""Kafka's own command-line tools, unchanged, with our broker at the other end."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.adapters.client import Record
from tests.compat.conftest import Address, Clients
from tests.process import BROKERS, REPLICAS
from tests.support.java import Java
from tests.support.probe import advertised_apis

TOOLS = "org.apache.kafka.tools"
BASE_MS = 1_700_000_000_000

Tool = Callable[..., str]


@pytest.fixture
def tool(java_tools: Java, broker: Address) -> Tool:
    """Runs a tool by its class and gives what it printed."""

    def run(name: str, *arguments: str, stdin: str | None = None) -> str:
        main = name if name.startswith("kafka.") else f"{TOOLS}.{name}"
        done = java_tools.run(
            main, "--bootstrap-server", broker.bootstrap_servers, *arguments, stdin=stdin
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def test_kafka_topics_creates_lists_describes_alters_and_deletes(tool: Tool, topic: str) -> None:
    named = ["--topic", topic]
    made = tool(
        "TopicCommand", "--create", *named, "--partitions", "2", "--config", "retention.ms=1234"
    )
    assert f"Created topic {topic}." in made
    assert topic in tool("TopicCommand", "--list").split()
    tool("TopicCommand", "--alter", *named, "--partitions", "3")
    described = tool("TopicCommand", "--describe", *named)
    assert "PartitionCount: 3" in described
    assert f"ReplicationFactor: {REPLICAS}" in described
    assert "retention.ms=1234" in described
    assert "Partition: 2\tLeader: " in described
    tool("TopicCommand", "--delete", *named)
    assert topic not in tool("TopicCommand", "--list").split()


def test_kafka_configs_alters_and_describes(tool: Tool, clients: Clients, topic: str) -> None:
    clients["confluent"].create_topic(topic)
    configs = ["kafka.admin.ConfigCommand", "--entity-type", "topics", "--entity-name", topic]
    tool(*configs, "--alter", "--add-config", "retention.ms=4321,max.message.bytes=2000000")
    tool(*configs, "--alter", "--delete-config", "max.message.bytes")
    described = tool(*configs, "--describe")
    assert "retention.ms=4321" in described
    assert "max.message.bytes" not in described
    everything = tool(*configs, "--describe", "--all")
    assert "max.message.bytes=1048588" in everything
    assert "DEFAULT_CONFIG" in everything


def test_kafka_configs_describes_and_alters_brokers(
    tool: Tool, clients: Clients, topic: str
) -> None:
    clients["confluent"].create_topic(topic)
    node = str(clients["confluent"].partitions(topic)[0].leader)
    configs = ["kafka.admin.ConfigCommand", "--entity-type", "brokers"]
    assert "log.segment.bytes=1073741824" in tool(
        *configs, "--entity-name", node, "--describe", "--all"
    )
    tool(*configs, "--entity-default", "--alter", "--add-config", "log.retention.ms=987654321")
    described = tool(*configs, "--entity-default", "--describe")
    assert "log.retention.ms=987654321" in described
    tool(*configs, "--entity-default", "--alter", "--delete-config", "log.retention.ms")


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        ("groups", "consumer.session.timeout.ms", "50000"),
        ("client-metrics", "interval.ms", "5000"),
    ],
)
def test_kafka_configs_alters_and_describes_groups_and_client_metrics(
    tool: Tool, topic: str, kind: str, option: str, value: str
) -> None:
    configs = ["kafka.admin.ConfigCommand", "--entity-type", kind, "--entity-name", topic]
    tool(*configs, "--alter", "--add-config", f"{option}={value}")
    assert f"{option}={value}" in tool(*configs, "--describe")
    tool(*configs, "--alter", "--delete-config", option)
    assert f"{option}={value}" not in tool(*configs, "--describe")


def test_get_offsets_by_every_spec(tool: Tool, clients: Clients, topic: str) -> None:
    client = clients["confluent"]
    client.create_topic(topic)
    with client.producer() as producer:
        producer.send(
            topic, [Record(b"x", timestamp_ms=BASE_MS + at) for at in (0, 10, 90, 20, 30)]
        )
    for spec, offset in [("earliest", 0), ("latest", 5), ("max-timestamp", 2), (BASE_MS + 15, 2)]:
        shown = tool("GetOffsetShell", "--topic", topic, "--time", str(spec))
        assert shown.strip() == f"{topic}:0:{offset}", spec


def test_the_console_producer_and_consumer_meet(tool: Tool, topic: str) -> None:
    lines = "".join(f"h1:v1,h2:v2\tkey {n}\tvalue {n}\n" for n in range(50))
    tool(
        *("ConsoleProducer", "--topic", topic, "--compression-codec", "zstd"),
        *("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
        stdin=lines,
    )
    properties = [
        part
        for name in ("print.key", "print.headers", "print.offset", "print.partition")
        for part in ("--formatter-property", f"{name}=true")
    ]
    shown = tool(
        *("consumer.ConsoleConsumer", "--topic", topic, "--partition", "0", "--offset", "10"),
        *("--max-messages", "40", *properties),
    )
    assert shown.splitlines() == [
        f"Partition:0\tOffset:{n}\th1:v1,h2:v2\tkey {n}\tvalue {n}" for n in range(10, 50)
    ]


def test_the_console_consumer_reads_every_codec_of_every_library(
    tool: Tool, clients: Clients, topic: str
) -> None:
    clients["confluent"].create_topic(topic)
    written = []
    for library in ("confluent", "kafka-python", "aiokafka"):
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            values = [f"{library} {codec} {n} " * 30 for n in range(50)]
            with clients[library].producer(codec=codec) as producer:
                producer.send(topic, [Record(value.encode()) for value in values])
            written += values
    shown = tool(
        *("consumer.ConsoleConsumer", "--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(len(written)), "--command-property", "check.crcs=true"),
    )
    assert shown.splitlines() == written


def test_delete_records_and_log_dirs(
    tool: Tool, clients: Clients, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    client = clients["confluent"]
    client.create_topic(topic)
    with client.producer() as producer:
        producer.send(topic, [Record(b"x" * 100)] * 10)
    wanted = tmp_path_factory.mktemp("tools") / "wanted.json"
    partition = {"topic": topic, "partition": 0, "offset": 4}
    wanted.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    shown = tool("DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert f"partition: {topic}-0\tlow_watermark: 4" in shown
    assert client.earliest(topic) == 4

    shown = tool("LogDirsCommand", "--describe", "--topic-list", topic)
    report = json.loads(shown.splitlines()[-1])
    (directory,) = report["brokers"][0]["logDirs"]
    assert directory["error"] is None
    (found,) = directory["partitions"]
    assert found["partition"] == f"{topic}-0"
    assert found["size"] > 1000
    assert found["offsetLag"] == 0


def test_the_broker_speaks_every_version_of_what_it_speaks(tool: Tool, broker: Address) -> None:
    """To Kafka's newest client, no API of ours is older than the one it would use."""
    shown = tool("BrokerApiVersionsCommand")
    lines = {
        int(line.split("(")[1].split(")")[0]): line
        for line in shown.splitlines()
        if line.startswith("\t")
    }
    for key in advertised_apis(broker.host, broker.port):
        assert "UNSUPPORTED" not in lines[key]
        if key != 22:  # an unstable version of InitProducerId is not for everyone
            highest = lines[key].split(": ")[1].split(" [")[0].split(" to ")[-1].strip(" ,")
            assert f"usable: {highest}]" in lines[key]


def test_features_are_described(tool: Tool) -> None:
    tool("FeatureCommand", "describe")


def test_producer_performance_gets_every_record_through(
    java_tools: Java, broker: Address, clients: Clients, topic: str
) -> None:
    clients["confluent"].create_topic(topic)
    done = java_tools.run(
        f"{TOOLS}.ProducerPerformance",
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", topic),
        *("--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", "acks=all", "--command-property", "linger.ms=5"),
    )
    assert done.returncode == 0, done.stderr
    assert "20000 records sent" in done.stdout
    assert clients["confluent"].latest(topic) == 20000


@pytest.mark.plain
def test_the_verifiable_producer_verifies(tool: Tool, clients: Clients, topic: str) -> None:
    clients["confluent"].create_topic(topic)
    shown = tool("VerifiableProducer", "--topic", topic, "--max-messages", "500", "--acks", "-1")
    events = [json.loads(line) for line in shown.splitlines()]
    (summary,) = [event for event in events if event["name"] == "tool_data"]
    assert (summary["sent"], summary["acked"]) == (500, 500)
    assert sum(event["name"] == "producer_send_success" for event in events) == 500
    assert clients["confluent"].latest(topic) == 500


@pytest.mark.plain
def test_kafkas_own_test_of_compatibility_passes(tool: Tool, clients: Clients, topic: str) -> None:
    clients["confluent"].create_topic(topic)
    shown = tool(
        *("ClientCompatibilityTest", "--topic", topic, "--num-cluster-nodes", str(BROKERS)),
        *("--offsets-for-times-supported", "true", "--cluster-id-supported", "true"),
        *("--expect-record-too-large-exception", "false", "--create-topics-supported", "true"),
        *("--describe-acls-supported", "true", "--describe-configs-supported", "true"),
        *("--idempotent-producer-supported", "true"),
    )
    assert "SUCCESS." in shown


@pytest.mark.alone
def test_kafka_reassign_partitions_on_one_broker_has_nothing_to_move(
    tool: Tool, clients: Clients, topic: str, tmp_path: Path
) -> None:
    clients["confluent"].create_topic(topic)
    node = clients["confluent"].partitions(topic)[0].leader
    command = "reassign.ReassignPartitionsCommand"
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    wanted = {"topic": topic, "partition": 0, "replicas": [node]}
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    file = ("--reassignment-json-file", str(plan))
    shown = tool(
        *(command, "--generate", "--topics-to-move-json-file", str(topics)),
        *("--broker-list", str(node)),
    )
    assert f'"replicas":[{node}]' in shown
    shown = tool(command, "--execute", *file, "--throttle", "50000000")
    assert f"Successfully started partition reassignment for {topic}-0" in shown
    assert f"Reassignment of partition {topic}-0 is completed." in tool(command, "--verify", *file)
    assert "No partition reassignments found." in tool(command, "--list")
    assert "None of the specified partition reassignments are active." in tool(
        command, "--cancel", *file
    )


@pytest.mark.alone
def test_kafka_leader_election_on_one_broker_has_nobody_else_to_elect(
    tool: Tool, clients: Clients, topic: str
) -> None:
    clients["confluent"].create_topic(topic)
    for kind in ("preferred", "unclean"):
        election = ("LeaderElectionCommand", "--election-type", kind)
        shown = tool(*election, "--topic", topic, "--partition", "0")
        assert f"Valid replica already elected for partitions {topic}-0" in shown
        tool(*election, "--all-topic-partitions")


@pytest.mark.plain
def test_kafka_acls_reports_that_there_is_no_authorizer(
    java_tools: Java, broker: Address, topic: str
) -> None:
    server = ("--bootstrap-server", broker.bootstrap_servers)
    rule = ("--allow-principal", "User:a", "--operation", "Read", "--topic", topic)
    for arguments in (("--list",), ("--add", *rule), ("--remove", "--force", *rule)):
        done = java_tools.run(f"{TOOLS}.AclCommand", *server, *arguments)
        assert "SecurityDisabledException" in done.stdout + done.stderr, arguments
