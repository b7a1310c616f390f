"""What Java, Go and Node write, Python reads; what Python writes, they read.

That each of them alone cannot tell our broker from Kafka is in tests/support.
"""

import subprocess

import pytest

from tests.compat.adapters.client import Record
from tests.compat.conftest import Address, Clients
from tests.support.go import Franz

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
EXPECTED = [
    Record(
        f"{CODECS[number // 50]} {number} ".encode() * 20,
        key=b"key %d" % number,
        headers=(("h", b"x"),),
        timestamp_ms=1_700_000_000_000 + number,
    )
    for number in range(250)
]


@pytest.mark.parametrize("language", ["java_client", "franz_go", "kafkajs"])
def test_python_reads_every_codec_of_other_languages(
    request: pytest.FixtureRequest, clients: Clients, broker: Address, topic: str, language: str
) -> None:
    writer = request.getfixturevalue(language)
    clients["confluent"].create_topic(topic)
    where = (broker.bootstrap_servers, topic)
    done: subprocess.CompletedProcess[str]
    if language == "java_client":
        done = writer.run("Write", *where)
    elif language == "franz_go":
        done = writer.run(*where, "write")
    else:
        done = writer.run("write.js", *where)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for reader in ("confluent", "kafka-python", "aiokafka"):
        with clients[reader].consumer(topic) as consumer:
            seen = consumer.read(len(EXPECTED))
        assert [Record(s.value, s.key, s.headers, s.timestamp_ms) for s in seen] == EXPECTED


def test_franz_go_reads_every_codec_of_every_library(
    franz_go: Franz, clients: Clients, broker: Address, topic: str
) -> None:
    clients["confluent"].create_topic(topic)
    written = []
    for library in ("confluent", "kafka-python", "aiokafka"):
        for codec in CODECS:
            values = [f"{library} {codec} {n} " * 30 for n in range(50)]
            with clients[library].producer(codec=codec) as producer:
                producer.send(topic, [Record(value.encode()) for value in values])
            written += values
    done = franz_go.run(broker.bootstrap_servers, topic, "read", str(len(written)))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == written
