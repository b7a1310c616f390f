"""Kafka's DumpLogSegments reads our directories: every record, every index, nothing to complain of.

The tool ends with 0 whatever it finds; its complaints are on standard error.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.adapters.client import Client, Record
from tests.compat.conftest import LIBRARIES
from tests.conftest import StartBroker
from tests.process import BrokerProcess
from tests.support.java import Java

pytestmark = pytest.mark.alone

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PER_CODEC = 600
# Small segments and a dense index: several files, and something in each of them.
CONFIGS = {"segment.bytes": "16384", "index.interval.bytes": "500"}
# It says so of every segment but the first, of Kafka's own directories as well.
FIRST_OFFSET = re.compile(r"Non-consecutive offsets in \S+/0*(\d+)\.log\n +-1 is followed by \1\n")
RECORD = re.compile(r"^\| offset: (\d+) ", re.MULTILINE)


def record(number: int) -> Record:
    return Record(
        b"%d " % number * 20 + bytes((number * prime) % 251 for prime in range(1, 150)),
        key=None if number % 5 == 0 else b"key %d" % number,
        headers=(("h", b"x"), ("null", None)) if number % 3 == 0 else (),
        timestamp_ms=1_700_000_000_000 + (number * 7919) % 100_000,
    )


def fill(client: Client, topic: str, codec: str, start: int, count: int) -> None:
    with client.producer(codec=codec, idempotent=codec in ("none", "zstd")) as producer:
        for first in range(start, start + count, 20):
            batch = [record(number) for number in range(first, first + 20)]
            assert producer.send(topic, batch) == list(range(first, first + 20))


def files_of(broker: BrokerProcess, topic: str, *kinds: str) -> list[Path]:
    assert broker.data is not None
    directory = broker.data / f"{topic}-0"
    return sorted(path for kind in kinds for path in directory.glob(f"*.{kind}"))


def dump(tools: Java, files: list[Path], *options: str) -> str:
    done = tools.run(
        "org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files))
    )
    assert done.returncode == 0, done.stderr
    assert FIRST_OFFSET.sub("", done.stderr) == ""
    return done.stdout


def check(tools: Java, broker: BrokerProcess, topics: list[str]) -> None:
    """What the tool reads is what was sent, and it finds every index in order."""
    logs = {topic: files_of(broker, topic, "log") for topic in topics}
    assert all(len(files) > 3 for files in logs.values()), "several segments each"
    everything = [file for files in logs.values() for file in files]
    shown = dump(tools, everything, "--deep-iteration", "--print-data-log")
    assert "isvalid: false" not in shown
    offsets = [int(offset) for offset in RECORD.findall(shown)]
    assert offsets == list(range(PER_CODEC)) * len(topics)
    for codec in CODECS:
        assert f"compresscodec: {codec} " in shown

    indexes = [file for topic in topics for file in files_of(broker, topic, "index", "timeindex")]
    sane = dump(tools, indexes, "--index-sanity-check")
    assert sane.count("passed sanity check") + sane.count("is empty") == len(indexes)
    assert sane.count("passed sanity check") > len(indexes) // 2
    dump(tools, indexes, "--verify-index-only")
    snapshots = [file for topic in topics for file in files_of(broker, topic, "snapshot")]
    assert "producerEpoch: 0" in dump(tools, snapshots)


@pytest.fixture
def own(start_broker: StartBroker) -> BrokerProcess:
    return start_broker()


@pytest.fixture
def client(own: BrokerProcess) -> Iterator[Client]:
    """aiokafka compresses every batch; librdkafka keeps those that would not get smaller."""
    client = LIBRARIES["aiokafka"](own.bootstrap_servers)
    yield client
    client.close()


def test_a_directory_is_sound_after_a_clean_stop(
    java_tools: Java, own: BrokerProcess, client: Client, topic: str
) -> None:
    topics = [f"{topic}-{codec}" for codec in CODECS]
    for name, codec in zip(topics, CODECS, strict=True):
        client.create_topic(name, configs=CONFIGS)
        fill(client, name, codec, 0, PER_CODEC)
    assert own.stop() == 0
    check(java_tools, own, topics)


def test_a_directory_is_sound_after_a_kill_and_recovery(
    java_tools: Java, own: BrokerProcess, client: Client, topic: str
) -> None:
    topics = [f"{topic}-{codec}" for codec in CODECS]
    half = PER_CODEC // 2
    for name, codec in zip(topics, CODECS, strict=True):
        client.create_topic(name, configs=CONFIGS)
        fill(client, name, codec, 0, half)
    own.kill()
    for name in topics:  # the end of a write that the kill cut short
        with open(files_of(own, name, "log")[-1], "ab") as torn:
            torn.write(bytes(7) + b"torn in the middle of a batch" * 5)
    own.start()
    for name, codec in zip(topics, CODECS, strict=True):
        fill(client, name, codec, half, half)
    assert own.stop() == 0
    check(java_tools, own, topics)
