"""What only our own brokers tell of a topic: its bytes, its segments, how dirty it is."""

import json

import pytest

from tests.cli.test_topics import Shell
from tests.process import BrokerProcess

pytestmark = pytest.mark.slow


@pytest.fixture
def shell(broker: BrokerProcess) -> Shell:
    return Shell(broker.bootstrap_servers)


def test_a_topic_shows_its_bytes_and_segments(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic)
    csv = shell.out("topic", "describe", topic, "--output", "csv").splitlines()
    assert csv[0].endswith("start,high_watermark,bytes,segments")
    assert csv[1].endswith(",0,0,0,1")


def test_a_compacted_topic_shows_how_dirty_it_is(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic, "-c", "cleanup.policy=compact")
    (line,) = shell.out("topic", "describe", topic, "-J").splitlines()
    told = json.loads(line)
    assert (told["dirty_bytes"], told["compaction"]) == (0, "clean")
