"""Kafka's own tools for share groups, on Apache Kafka and on ours: they print the same."""

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.sync import Admin, Producer, ShareConsumer
from tests.process import BrokerProcess, running_broker
from tests.support.java import Java
from tests.support.kafka import KafkaBroker, kafka_for_tests
from tests.waiting import until

GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"
OPTIONS = {"group.share.assignment.interval.ms": "0"}
TOPIC, GROUP, RECORDS = "jobs", "queue", 40

# Ids, addresses and epochs; errors, which have Kafka's codes and words of our own.
PLAIN = {
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9A-Za-z_-]{22}\b(?= /127)": "MEMBER",
    r"127\.0\.0\.1:\d+ \(\d+\)": "BROKER",
    r"worker 2 \d+ ": "worker 2 EPOCH ",
    r"there is no share group '\w+'|Group \w+ not found\.": "NOT FOUND",
    r"share group '\w+' has 1 members; stop them first|The group is not empty\.": "NOT EMPTY",
    r"this broker has no such topic or partition|This server does not host.*": "UNKNOWN",
    r"share group '\w+' has no offsets.*|There is no offset information to delete\.": "NO OFFSETS",
}

Said = tuple[str, int, list[str]]


@pytest.fixture(scope="module")
def us(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("broker")
    with running_broker(directory, OPTIONS) as running:
        yield running
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def them(kafka_lib: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    directory = tmp_path_factory.mktemp("kafka")
    with kafka_for_tests(directory, OPTIONS) as running:
        yield running
    shutil.rmtree(directory, ignore_errors=True)


class ToolScript:
    """Which tools are run, and what they print, in words that do not depend on the broker."""

    def __init__(self, tools: Java, servers: str) -> None:
        self.servers = servers
        self.said: list[Said] = []
        self._tools = tools
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic(TOPIC, partitions=2)
            for group in (GROUP, "console", "performance"):
                admin.alter_group(group, put={"share.auto.offset.reset": "earliest"})
        with Producer(bootstrap_servers=servers) as producer:
            for number in range(RECORDS):
                producer.send_nowait(TOPIC, b"job %02d" % number, partition=number % 2)
            producer.flush()

    def run(self, tool: str, *arguments: str) -> list[str]:
        done = self._tools.run(tool, "--bootstrap-server", self.servers, *arguments)
        lines = [self._plain(line) for line in (done.stdout + done.stderr).splitlines()]
        shown = [line for line in lines if line and not line.startswith("at ")]
        self.said.append((" ".join(arguments), done.returncode, shown))
        return shown

    def groups(self, *arguments: str) -> None:
        self.run(GROUPS, *arguments)

    def _plain(self, line: str) -> str:
        line = " ".join(line.split())
        for pattern, instead in PLAIN.items():
            line = re.sub(pattern, instead, line)
        return line

    def member(self) -> ShareConsumer[Any, Any]:
        return ShareConsumer(
            TOPIC,
            bootstrap_servers=self.servers,
            group_id=GROUP,
            client_id="worker",
            share_acknowledgement_mode="explicit",
            allow_unacknowledged=True,
        )


def without_members(script: ToolScript) -> None:
    everything = ["--reset-offsets", "--group", GROUP]
    script.groups("--list")
    script.groups(*everything, "--topic", f"{TOPIC}:1", "--to-latest", "--dry-run")
    script.groups(*everything, "--topic", "missing", "--to-latest", "--execute")
    script.groups(*everything, "--topic", TOPIC, "--to-latest", "--execute")
    script.groups("--describe", "--group", GROUP)
    everything.append("--all-topics")
    script.groups(*everything, "--to-datetime", "2001-01-01T00:00:00.000", "--execute")
    script.groups(*everything, "--to-datetime", "2901-01-01T00:00:00.000", "--dry-run")
    script.groups(*everything, "--to-earliest", "--execute")
    describe_all(script)
    script.groups("--describe", "--group", "missing")
    script.groups("--delete-offsets", "--group", "missing", "--topic", TOPIC)
    script.groups("--delete", "--group", "missing")


def describe_all(script: ToolScript) -> None:
    script.groups("--list", "--state")
    script.groups("--list", "--state", "empty")
    script.groups("--describe", "--group", GROUP)
    script.groups("--describe", "--all-groups", "--offsets")
    script.groups("--describe", "--group", GROUP, "--members")
    script.groups("--describe", "--group", GROUP, "--members", "--verbose")
    script.groups("--describe", "--group", GROUP, "--state")


def with_a_member(script: ToolScript) -> None:
    """That accepts 10 records of partition 0, the first 5 among them."""
    with script.member() as consumer:
        seen: dict[int, list[Any]] = {0: [], 1: []}

        def all_here() -> bool:
            for message in consumer.poll(timeout=1):
                seen[message.partition].append(message)
            return sum(map(len, seen.values())) == RECORDS

        until(all_here)
        for message in (*seen[0][:5], *seen[0][10:15]):
            consumer.acknowledge(message)
        assert set(consumer.commit_sync().values()) == {None}
        describe_all(script)
        everything = ["--reset-offsets", "--group", GROUP, "--all-topics"]
        script.groups(*everything, "--to-latest", "--execute")
        script.groups("--delete-offsets", "--group", GROUP, "--topic", TOPIC)
        script.groups("--delete", "--group", GROUP)
    with Admin(bootstrap_servers=script.servers) as admin:
        until(lambda: not admin.describe_group(GROUP).members)
    describe_all(script)


def other_tools(script: ToolScript) -> None:
    named = ["--topic", TOPIC]
    count = ["--max-messages", str(RECORDS), "--timeout-ms", "120000"]
    read = script.run(CONSOLE, *named, "--group", "console", *count)
    script.said[-1] = (*script.said[-1][:2], sorted(read))
    shown = script.run(
        *(PERFORMANCE, *named, "--group", "performance", "--num-records", str(RECORDS)),
        *("--timeout", "120000", "--threads", "1"),
    )
    heads, *rows = (line.split(", ") for line in shown if ", " in line)
    figures = dict(zip(heads, rows[0], strict=True))
    counted = [figures["data.consumed.in.MB"], figures.get("nMsg", "")]
    script.said[-1] = (*script.said[-1][:2], [*heads, *counted, str(len(rows))])


def the_end(script: ToolScript) -> None:
    script.groups("--delete-offsets", "--group", GROUP, "--topic", TOPIC, "--topic", "missing")
    script.groups("--delete-offsets", "--group", GROUP, "--topic", TOPIC)
    script.groups("--describe", "--group", GROUP)
    with Admin(bootstrap_servers=script.servers) as admin:
        for group in ("console", "performance"):
            until(lambda group=group: not admin.describe_group(group).members)  # type: ignore[misc]
    script.groups("--delete", "--group", GROUP, "--group", "missing")
    script.groups("--describe", "--group", GROUP)
    script.groups("--delete", "--all-groups")
    script.groups("--list")


def told(tools: Java, broker: BrokerProcess | KafkaBroker) -> list[Said]:
    script = ToolScript(tools, broker.bootstrap_servers)
    for part in (without_members, with_a_member, other_tools, the_end):
        part(script)
    return script.said


def test_the_tools_for_share_groups_print_the_same(
    java_tools: Java, us: BrokerProcess, them: KafkaBroker
) -> None:
    ours, theirs = told(java_tools, us), told(java_tools, them)
    for mine, kafkas in zip(ours, theirs, strict=True):
        assert mine == kafkas
