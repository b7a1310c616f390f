"""What groups leave in __consumer_offsets, decoded by Kafka's own tools."""

import json
import re
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.compat.apache_kafka.test_same_streams_requests import OPTIONS as STREAMS
from tests.compat.apache_kafka.test_same_streams_requests import StreamsScript
from tests.conftest import StartBroker
from tests.support.caller import Caller
from tests.support.java import Java
from tests.waiting import WAIT_S, until

OPTIONS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
# The types of records, as Kafka numbers them.
OFFSET, GENERATION, GROUP_EPOCH, MEMBER = "1", "2", "3", "5"
TARGET_EPOCH, TARGET, CURRENT = "6", "7", "8"
Dumped = tuple[str, dict[str, Any] | None]
PAYLOAD = re.compile(r"(key|payload): (\{.*?\}|<DELETE>)(?= payload:|$)")


def dumped(java_tools: Java, log: Path) -> list[Dumped]:
    """The kind of each record and its value; None for a tombstone."""
    done = java_tools.run(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--offsets-decoder", "--files", str(log)),
    )
    assert not done.returncode, done.stderr
    assert "Could not" not in done.stdout, done.stdout
    found: list[Dumped] = []
    for line in done.stdout.splitlines():
        parts = dict(PAYLOAD.findall(line))
        if "key" in parts:
            value = parts.get("payload", "<DELETE>")
            kind = json.loads(parts["key"])["type"]
            found.append((kind, None if value == "<DELETE>" else json.loads(value)["data"]))
    return found


def member(servers: str, group: str, topic: str, **more: str) -> None:
    """One member that reads ten records, commits, and leaves."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )
    consumer.subscribe([topic])
    read: list[object] = []

    def has_read() -> bool:
        read.extend(consumer.consume(10, 0.2))
        return len(read) >= 10

    until(has_read, lambda: read)
    consumer.commit(offsets=[TopicPartition(topic, 0, 10, metadata="ten")], asynchronous=False)
    consumer.close()


def test_kafka_decodes_the_records_of_groups_of_both_protocols(
    java_tools: Java, start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker(OPTIONS)
    servers = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_S)
    producer = Producer({"bootstrap.servers": servers})
    for _ in range(10):
        producer.produce(topic, b"x")
    producer.flush(WAIT_S)
    member(servers, "classic", topic)
    member(servers, "new", topic, group_protocol="consumer")
    admin.delete_consumer_groups(["classic"])["classic"].result(WAIT_S)
    broker.stop()
    assert broker.data is not None
    (log,) = (broker.data / "__consumer_offsets-0").glob("*.log")
    found = dumped(java_tools, log)
    assert [kind for kind, _ in found if kind in (OFFSET, GENERATION)] == [
        *(GENERATION, OFFSET, GENERATION),  # together, committed, empty
        OFFSET,  # of the new group
        *(OFFSET, GENERATION),  # the classic group is deleted
    ]
    together, emptied, deleted = (value for kind, value in found if kind == GENERATION)
    assert together is not None
    assert emptied is not None
    assert [each["clientId"] for each in together["members"]] == ["rdkafka"]
    assert together["members"][0]["subscription"]["topics"] == [topic]
    assert together["members"][0]["assignment"]["assignedPartitions"][0]["partitions"] == [0]
    assert (emptied["generation"], emptied["members"], deleted) == (2, [], None)
    first, second, forgotten = (value for kind, value in found if kind == OFFSET)
    assert first is not None
    assert second is not None
    assert (first["offset"], second["offset"], forgotten) == (10, 10, None)
    by_kind = {kind: value for kind, value in found if value is not None}
    assert by_kind[MEMBER]["subscribedTopicNames"] == [topic]
    assert by_kind[TARGET]["topicPartitions"][0]["partitions"] == [0]
    assert by_kind[CURRENT]["assignedPartitions"][0]["partitions"] == [0]
    joined, left = (value["epoch"] for kind, value in found if kind == GROUP_EPOCH and value)
    assert left == joined + 1
    assert by_kind[TARGET_EPOCH]["assignmentEpoch"] == joined
    # The member has left: nothing of it is kept, and the group's epoch has moved on.
    ends = dict(found)
    assert [ends[kind] for kind in (MEMBER, TARGET, CURRENT)] == [None] * 3


def test_kafka_decodes_the_records_of_a_streams_group(
    java_tools: Java, start_broker: StartBroker
) -> None:
    broker = start_broker(OPTIONS | STREAMS)
    caller = Caller(broker)
    script = StreamsScript(caller)
    script.join("a")
    script.join("b")
    script.settle("a", "b")
    script.say("b", -1)
    caller.close()
    broker.stop()
    assert broker.data is not None
    (log,) = (broker.data / "__consumer_offsets-0").glob("*.log")
    found = dumped(java_tools, log)
    last = {kind: value for kind, value in found if value is not None}
    assert last.keys() == {"17", "19", "20", "21", "22", "23"}
    assert last["17"]["lastAssignmentConfigs"] == [{"key": "num.standby.replicas", "value": "0"}]
    assert last["19"]["processId"] == "process b"
    parts = [(part["subtopologyId"], part["sourceTopics"]) for part in last["23"]["subtopologies"]]
    assert parts == [("0", ["t"]), ("1", [])]
    assert last["22"]["activeTasks"][0]["assignmentEpochs"]
    assert [kind for kind, value in found if value is None] == ["22", "21", "19"]
