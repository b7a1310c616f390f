"""Starts an Apache Kafka broker of one KRaft node, or a cluster of such, with Kafka's JVM flags.

In: an empty directory. Out: a process that answers, and its address; or one for each node.
"""

import base64
import hashlib
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_ports
from tests.process import KEPT
from tests.support.cache import once
from tests.support.install import program
from tests.support.java import KAFKA_VERSION, Java, kafka_lib, kafka_tools
from tests.support.probe import wait_for_metadata
from tests.waiting import WAIT_S

ARCHIVE = "classes.jsa"
START_S_MAX = 600  # on a busy machine a JVM takes minutes

# What bin/kafka-server-start.sh and bin/kafka-run-class.sh set.
JVM_FLAGS = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)  # fmt: skip


# Of one that lives for a few tests: compiling well would take longer than it saves.
SHORT_LIVED = (
    "-Xmx1G", "-Xms256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true",
)  # fmt: skip


@dataclass
class KafkaBroker:
    """A running Apache Kafka."""

    host: str
    port: int
    data: Path
    process: subprocess.Popen[bytes]
    tools: Java

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _properties(port: int, controller_port: int, data: Path, more: Mapping[str, str]) -> str:
    return "".join(
        f"{name}={value}\n"
        for name, value in {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.share.min.record.lock.duration.ms": "1000",
            "group.share.min.heartbeat.interval.ms": "200",
            "group.share.heartbeat.interval.ms": "200",
            "group.initial.rebalance.delay.ms": "0",
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.consumer.heartbeat.interval.ms": "200",
            **more,
        }.items()
    )


def prepare(
    directory: Path, options: Mapping[str, str] | None = None, port: int | None = None
) -> tuple[Path, int]:
    """Write `server.properties` and format the log directory; its path and the port.

    `port`: that of a plain listener among `options`, if they have listeners of their own.
    """
    directory.mkdir(parents=True, exist_ok=True)
    free_port, controller_port = free_ports(2)
    port = free_port if port is None else port
    properties = directory / "server.properties"
    properties.write_text(_properties(port, controller_port, directory / "data", options or {}))
    formatted = once(f"kafka-{KAFKA_VERSION}-formatted", _format_once)
    shutil.copytree(formatted / "data", directory / "data")
    return properties, port


def _format_once(directory: Path) -> None:
    """What the tool writes is the same for each lone broker, and takes a second."""
    properties = directory / "server.properties"
    properties.write_text(_properties(1, 2, directory / "data", {}))
    _format(properties, _cluster_id())


def _cluster_id() -> str:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    # The tool would take one that begins with a dash for an option.
    return "A" + cluster[1:] if cluster.startswith("-") else cluster


def _format(properties: Path, cluster: str) -> None:
    done = Java(f"{kafka_lib()}/*").run(
        "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)
    )
    if done.returncode:
        raise RuntimeError(f"Kafka's StorageTool failed: {done.stdout}{done.stderr}")


def prepare_cluster(
    directory: Path, count: int, options: Mapping[str, str] | None = None
) -> list[tuple[Path, int]]:
    """The same for `count` combined nodes, all voters."""
    free = free_ports(2 * count)
    ports, controllers = free[:count], free[count:]
    voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(controllers, 1))
    cluster = _cluster_id()
    prepared = []
    for number, (port, controller) in enumerate(zip(ports, controllers, strict=True), 1):
        home = directory / f"node-{number}"
        home.mkdir(parents=True, exist_ok=True)
        more = {
            "node.id": str(number),
            "controller.quorum.voters": voters,
            "offsets.topic.replication.factor": str(min(3, count)),
            "transaction.state.log.replication.factor": str(min(3, count)),
            **(options or {}),
        }
        properties = home / "server.properties"
        properties.write_text(_properties(port, controller, home / "data", more))
        _format(properties, cluster)
        prepared.append((properties, port))
    return prepared


@contextmanager
def running_kafka_cluster(
    directory: Path, count: int, options: Mapping[str, str] | None = None
) -> Iterator[list[KafkaBroker]]:
    """None of them answers before most of them run: they are started at once."""
    prepared = prepare_cluster(directory, count, options)
    with ExitStack() as running, ThreadPoolExecutor(count) as starting:
        brokers = list(starting.map(lambda each: start(*each), prepared))
        for broker in brokers:
            running.callback(broker.stop)
        yield brokers


def _classes_archive() -> Path:
    """What a start loads, in the JVM's own format: loading and checking it is half of a start."""
    java = Path(program("java")).resolve()
    made = hashlib.sha256(f"{java} {java.stat().st_mtime_ns} {kafka_lib()}".encode()).hexdigest()
    return once(f"kafka-{KAFKA_VERSION}-classes-{made[:12]}", _archive_classes) / ARCHIVE


def _archive_classes(directory: Path) -> None:
    dump = f"-XX:ArchiveClassesAtExit={directory / ARCHIVE}"
    start(*prepare(directory / "kafka"), (*SHORT_LIVED, dump)).stop()


def start(properties: Path, port: int, flags: Sequence[str] = JVM_FLAGS) -> KafkaBroker:
    """Start on a prepared directory and wait until it answers."""
    if flags == SHORT_LIVED:
        flags = (*flags, f"-XX:SharedArchiveFile={_classes_archive()}")
    tools = kafka_tools()
    directory = properties.parent
    with open(directory / "kafka.out", "ab") as out:
        process = subprocess.Popen(
            tools.command("kafka.Kafka", str(properties), flags=flags),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    broker = KafkaBroker("127.0.0.1", port, directory / "data", process, tools)
    try:
        wait_for_metadata(broker.host, port, START_S_MAX, lambda: process.poll() is None)
    except BaseException:
        broker.stop()
        raise
    return broker


@contextmanager
def running_kafka(
    directory: Path,
    options: Mapping[str, str] | None = None,
    flags: Sequence[str] = JVM_FLAGS,
    port: int | None = None,
) -> Iterator[KafkaBroker]:
    broker = start(*prepare(directory, options, port), flags)
    try:
        yield broker
    finally:
        broker.stop()


@contextmanager
def kafka_for_tests(
    directory: Path, options: Mapping[str, str] | None = None, port: int | None = None
) -> Iterator[KafkaBroker]:
    with running_kafka(directory, {**KEPT, **(options or {})}, SHORT_LIVED, port) as running:
        yield running
