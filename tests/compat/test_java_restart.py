"""Kafka's own client through a crash of the broker: it goes on, and nothing is lost or twice."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.compat.adapters.client import Client
from tests.compat.conftest import LIBRARIES
from tests.compat.waiting import until
from tests.conftest import StartBroker
from tests.process import BrokerProcess
from tests.support.java import Java
from tests.waiting import WAIT_S

TOOLS = "org.apache.kafka.tools"
COUNT = 12_000
PER_SECOND = 4_000


@pytest.fixture
def own(start_broker: StartBroker) -> BrokerProcess:
    return start_broker()


@pytest.fixture
def client(own: BrokerProcess) -> Iterator[Client]:
    client = LIBRARIES["confluent"](own.bootstrap_servers)
    yield client
    client.close()


@pytest.fixture
def start_tool(java_tools: Java) -> Iterator["StartTool"]:
    starting = StartTool(java_tools)
    yield starting
    starting.end()


class StartTool:
    """Tools that run beside the test, ended with it."""

    def __init__(self, tools: Java) -> None:
        self._tools = tools
        self._running: list[subprocess.Popen[str]] = []

    def __call__(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self._tools.command(f"{TOOLS}.{name}", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._running.append(process)
        return process

    def end(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_java_goes_on_after_the_broker_comes_back(
    start_tool: StartTool, own: BrokerProcess, client: Client, topic: str, how: str
) -> None:
    client.create_topic(topic)
    where = ("--bootstrap-server", own.bootstrap_servers, "--topic", topic)
    consumer = start_tool(
        "consumer.ConsoleConsumer",
        *(*where, "--partition", "0", "--offset", "earliest", "--max-messages", str(COUNT)),
        *("--formatter-property", "print.offset=true", "--formatter-property", "print.value=false"),
    )
    producer = start_tool(
        "ProducerPerformance",
        *(*where, "--num-records", str(COUNT), "--record-size", "100"),
        *("--throughput", str(PER_SECOND), "--command-property", "acks=all"),
    )
    until(lambda: client.latest(topic) > COUNT // 4)
    if how == "killed":
        own.kill()
    else:
        assert own.stop() == 0
    own.start()
    said, _ = producer.communicate(timeout=WAIT_S)
    assert producer.returncode == 0, said
    assert f"{COUNT} records sent" in said
    # librdkafka's admin would go on with the leader epoch of before, with Kafka's brokers as well.
    again = LIBRARIES["confluent"](own.bootstrap_servers)
    assert again.latest(topic) == COUNT
    again.close()
    seen, _ = consumer.communicate(timeout=WAIT_S)
    offsets = [line for line in seen.splitlines() if line.startswith("Offset:")]
    assert [int(line.split(":")[1].split()[0]) for line in offsets] == list(range(COUNT))
