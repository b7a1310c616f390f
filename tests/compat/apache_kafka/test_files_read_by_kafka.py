"""Kafka's DumpLogSegments reads our directories and finds nothing wrong in log or indexes."""

import random
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.conftest import StartBroker
from tests.process import BrokerProcess
from tests.support.java import Java
from tests.waiting import WAIT_S

RECORDS_PER_CODEC = 400
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPLAINTS = ("ismatch", "out of order", "isvalid: false", "Exception", " is followed by ")
# The tool starts each file at -1 and so finds a gap before every later segment, Kafka's own too.
EXPECTED = re.compile(r"Non-consecutive offsets in \S+\n\s+-1 is followed by \d+\n")


def fill(broker: BrokerProcess, topic: str) -> int:
    """Several segments and index entries, every codec, idempotent and not."""
    servers = broker.bootstrap_servers
    randomness = random.Random(7)
    options = {"segment.bytes": "65536", "index.interval.bytes": "1024"}
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=options)])[topic].result(WAIT_S)
    for number, codec in enumerate(CODECS):
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "compression.type": codec,
                "enable.idempotence": number % 2 == 0,
                "batch.num.messages": 10,
            }
        )
        for record in range(RECORDS_PER_CODEC):
            value = randomness.randbytes(300) + bytes(700)
            producer.produce(topic, value, key=str(record), headers={"n": str(record)})
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0
    return RECORDS_PER_CODEC * len(CODECS)


def dump(java_tools: Java, files: list[Path], *options: str) -> str:
    assert files
    done = java_tools.run(
        "org.apache.kafka.tools.DumpLogSegments",
        *options,
        "--files",
        ",".join(str(file) for file in sorted(files)),
    )
    said = EXPECTED.sub("", done.stdout + done.stderr)
    assert done.returncode == 0, said
    assert not [complaint for complaint in COMPLAINTS if complaint in said], said[-4000:]
    return done.stdout


@pytest.mark.parametrize("ending", ["stopped", "killed", "killed and restarted"])
def test_kafka_reads_a_directory_that_was(
    ending: str, java_tools: Java, start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker()
    records = fill(broker, topic)
    if ending == "stopped":
        broker.stop()
    else:
        broker.kill()
    if ending == "killed and restarted":
        broker.start()
        broker.stop()
    assert broker.data is not None
    partition = broker.data / f"{topic}-0"
    logs = list(partition.glob("*.log"))
    assert len(logs) > 3
    said = dump(java_tools, logs, "--deep-iteration")
    assert said.count("| offset:") == records
    if ending != "killed":
        # A killed broker's newest index is cut to its entries only when it is opened again.
        indexes = [*partition.glob("*.index"), *partition.glob("*.timeindex")]
        dump(java_tools, indexes)
        dump(java_tools, list(partition.glob("*.index")), "--index-sanity-check")
        dump(java_tools, list(partition.glob("*.snapshot")))
