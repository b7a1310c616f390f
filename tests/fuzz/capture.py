"""`python -m tests.fuzz.capture [TOUR ...]` records the corpus: what clients say to Apache Kafka.

A proxy that Kafka advertises as its own address keeps the requests that go through it. Every
client this machine has makes its tour; the others are said to be missing.
Always: of each client, API and version only a few short frames are kept, none that names this
machine.
"""

import asyncio
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import unpack_from

from barnabas.wire.apis import APIS
from tests.compat.groups.team import team_of
from tests.fuzz.corpus import load, store
from tests.support.cache import Missing
from tests.support.go import franz_go
from tests.support.install import program
from tests.support.java import java_programs
from tests.support.kafka import running_kafka
from tests.support.node import kafkajs

FRAME_SIZE_MAX = 4000
FRAMES_EACH = 8
TOUR_TIMEOUT_S = 120


class Proxy:
    """Passes bytes both ways, and keeps whole requests."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.target = 0
        self.visitor = ""
        self.kept: dict[tuple[str, int, int], list[bytes]] = {}
        self._own_name = socket.gethostname().encode()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listening.accept()
            try:
                broker = socket.create_connection(("127.0.0.1", self.target))
            except ConnectionRefusedError:
                client.close()
                continue
            for source, sink, keep in ((client, broker, True), (broker, client, False)):
                threading.Thread(target=self._pass, args=(source, sink, keep), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, keep: bool) -> None:
        visitor = self.visitor
        waiting = b""
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if keep:
                    waiting = self._cut(visitor, waiting + data)
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _cut(self, visitor: str, data: bytes) -> bytes:
        while len(data) >= 4:
            (size,) = unpack_from(">i", data)
            if len(data) < 4 + size:
                break
            self._keep(visitor, data[4 : 4 + size])
            data = data[4 + size :]
        return data

    def _keep(self, visitor: str, frame: bytes) -> None:
        if len(frame) > FRAME_SIZE_MAX or self._own_name in frame:
            return
        key, version = unpack_from(">hh", frame)
        known = self.kept.setdefault((visitor, key, version), [])
        # A frame of a length that is there already says little that is new.
        if len(known) < FRAMES_EACH and all(len(frame) != len(other) for other in known):
            known.append(frame)


def tours(servers: str) -> dict[str, Callable[[], None]]:
    return {
        "confluent": lambda: _tour_adapter("confluent", servers),
        "kafka-python": lambda: _tour_adapter("kafka_python", servers),
        "aiokafka": lambda: _tour_adapter("aiokafka", servers),
        "groups": lambda: _tour_groups(servers),
        "java": lambda: _check(java_programs().run("Visit", servers, "java")),
        "kafkajs": lambda: _check(kafkajs().run("visit.js", servers, "kafkajs", "consume")),
        "franz": lambda: _check(franz_go().run(servers, "franz")),
        "kcat": lambda: _tour_kcat(servers),
    }


def _check(done: "subprocess.CompletedProcess[str]") -> None:
    if done.returncode:
        raise RuntimeError(f"{done.stdout}\n{done.stderr}")


def _tour_kcat(servers: str) -> None:
    kcat = program("kcat")
    for arguments, text in (
        (["-L"], ""),
        (["-P", "-t", "kcat", "-K:"], "a:1\nb:2\n"),
        (["-C", "-t", "kcat", "-e", "-o", "beginning"], ""),
        (["-Q", "-t", "kcat:0:1700000000000"], ""),
    ):
        _check(
            subprocess.run(
                [kcat, "-b", servers, *arguments],
                input=text,
                text=True,
                capture_output=True,
                timeout=TOUR_TIMEOUT_S,
                check=False,
            )
        )


def _tour_adapter(library: str, servers: str) -> None:
    """Everything that the tests of client libraries ask of one."""
    from tests.compat.adapters.client import Client, NotOffered, Record, Refused
    from tests.compat.conftest import LIBRARIES

    wanted = library.replace("_", "-")
    client: Client = next(
        made(servers) for name, made in LIBRARIES.items() if name.replace("_", "-") == wanted
    )
    topic = f"tour-{library}"
    client.create_topic(topic, 2, {"max.message.bytes": "100000"})
    records = [
        Record(b"value", b"key", (("h", b"1"), ("n", b"")), 1_700_000_000_000),
        Record(None, b"gone"),
        Record(b"x" * 300),
    ]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for acks, idempotent in (("all", False), ("1", False), ("0", False), ("all", True)):
            with client.producer(codec=codec, acks=acks, idempotent=idempotent) as producer:
                producer.send(topic, records)
    with client.consumer(topic) as consumer:
        consumer.read(5)
    steps: list[Callable[[], object]] = [
        client.topic_names,
        lambda: client.partitions(topic),
        lambda: client.configs(topic),
        lambda: client.broker_configs(1),
        lambda: client.replace_configs(topic, {"retention.ms": "1000000"}),
        lambda: client.alter_configs(topic, {"retention.ms": "2000000", "segment.bytes": None}),
        lambda: client.earliest(topic),
        lambda: client.latest(topic),
        lambda: client.at_time(topic, 1_700_000_000_000),
        lambda: client.at_max_timestamp(topic),
        lambda: client.add_partitions(topic, 3),
        lambda: client.delete_records(topic, 2),
        lambda: client.delete_topic(topic),
    ]
    for step in steps:
        try:
            step()
        except (NotOffered, Refused) as reason:
            print(f"  {library}: {reason}")
    client.close()


def _tour_groups(servers: str) -> None:
    """Groups of every library that has them, of both protocols, static members among them."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("groups", 3, 1)])["groups"].result(TOUR_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(30):
        producer.produce("groups", str(number), partition=number % 3)
    producer.flush(TOUR_TIMEOUT_S)
    protocols = (
        {"partition.assignment.strategy": "range"},
        {"partition.assignment.strategy": "cooperative-sticky", "group.instance.id": "one"},
        {"group.protocol": "consumer"},
        {
            "group.protocol": "consumer",
            "group.instance.id": "two",
            "group.remote.assignor": "range",
        },
    )
    for number, protocol in enumerate(protocols):
        _tour_confluent_group(servers, f"tour-{number}", protocol)
    _tour_kafka_python_group(servers)
    asyncio.run(_tour_aiokafka_group(servers))
    for library in ("java", "kafkajs"):
        with team_of(servers, f"groups-{library}", 2, [library] * 2) as team:
            team.write(5)
            team.wait_read()
            team.wait_committed()
    _tour_group_admin(servers, [f"tour-{number}" for number in range(len(protocols))])


def _tour_confluent_group(servers: str, group: str, protocol: dict[str, str]) -> None:
    from confluent_kafka import Consumer

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        **protocol,
    }
    consumer = Consumer(settings)
    consumer.subscribe(["groups"])
    consumer.consume(30, TOUR_TIMEOUT_S)
    consumer.commit(asynchronous=False)
    other = Consumer({**settings, "group.instance.id": "three"})
    other.subscribe(["^gro.*"])
    for _ in range(80):
        consumer.poll(0.05)
        other.poll(0.05)
    consumer.committed(consumer.assignment(), TOUR_TIMEOUT_S)
    other.close()
    consumer.close()


def _tour_kafka_python_group(servers: str) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        "groups",
        bootstrap_servers=servers,
        group_id="tour-kafka-python",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=500,
        consumer_timeout_ms=3_000,
    )
    for _ in consumer:
        pass
    consumer.commit()
    consumer.close()


async def _tour_aiokafka_group(servers: str) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        "groups",
        bootstrap_servers=servers,
        group_id="tour-aiokafka",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=500,
    )
    await consumer.start()
    for _ in range(4):
        await consumer.getmany(timeout_ms=500)
    await consumer.commit()
    await consumer.stop()


def _tour_group_admin(servers: str, groups: list[str]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import AdminClient
    from kafka.admin import KafkaAdminClient
    from kafka.structs import TopicPartition as KafkaPythonPartition

    admin = AdminClient({"bootstrap.servers": servers})
    moved = ConsumerGroupTopicPartitions(groups[0], [TopicPartition("groups", 0, 1)])
    other = KafkaAdminClient(bootstrap_servers=servers)
    steps: list[Callable[[], object]] = [
        lambda: admin.list_consumer_groups().result(TOUR_TIMEOUT_S),
        lambda: [each.result() for each in admin.describe_consumer_groups(groups).values()],
        lambda: [
            each.result()
            for each in admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(groups[0])]
            ).values()
        ],
        lambda: [each.result() for each in admin.alter_consumer_group_offsets([moved]).values()],
        lambda: other.delete_group_offsets(groups[1], [KafkaPythonPartition("groups", 0)]),
        lambda: other.describe_groups(groups),
        other.list_groups,
        lambda: [each.result() for each in admin.delete_consumer_groups(groups[:2]).values()],
    ]
    for step in steps:
        try:
            step()
        except Exception as reason:
            print(f"  groups: {reason}")
    other.close()


def main(wanted: list[str]) -> None:
    """All tours, or those named, whose requests are added to what was recorded before."""
    proxy = Proxy()
    directory = Path(tempfile.mkdtemp(prefix="barnabas-capture-"))
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
    with running_kafka(directory, advertised) as kafka:
        proxy.target = kafka.port
        for name, tour in tours(f"127.0.0.1:{proxy.port}").items():
            if wanted and name not in wanted:
                continue
            proxy.visitor = name
            try:
                tour()
            except Missing as missing:
                print(f"{name}: not here: {missing}")
            except Exception as problem:
                print(f"{name}: {problem}")
    heard = [frame for kept in proxy.kept.values() for frame in kept]
    frames = {frame[:4] + frame[8:]: frame for frame in [*(load() if wanted else ()), *heard]}
    size = store(frames.values())
    print(f"{len(frames)} requests, {size} bytes")
    for (key, version), count in sorted(
        Counter(unpack_from(">hh", frame) for frame in frames.values()).items()
    ):
        print(f"  {APIS[key].name if key in APIS else key} version {version}: {count}")


if __name__ == "__main__":
    main(sys.argv[1:])
