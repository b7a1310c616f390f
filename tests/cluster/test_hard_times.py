"""What an operator may do, and what may happen, while a broker is down, dies or is another one.

Through all of it an idempotent producer of librdkafka goes on with acks=all: in the end every
record is there, once, in order, on every replica.
"""

import resource
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tests.cli.command import barnabas
from tests.cluster.members import Cluster, running_cluster
from tests.raw import RawClient
from tests.waiting import WAIT_S, until

PAUSE_S = 0.002
LARGE_RECORDS = 3_000
FULL_BYTES = 150_000  # less than a segment has
STALE_MS = 300  # how old librdkafka's idea of a topic may get in these tests


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path / "cluster") as running:
        yield running
        for member in running.members.values():
            member.check_log()


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "reconnect.backoff.max.ms": 100,
            "topic.metadata.refresh.interval.ms": STALE_MS,
        }
    )


def create(admin: AdminClient, topic: str, *assignment: list[int], **configs: str) -> None:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    new = NewTopic(topic, len(assignment), replica_assignment=list(assignment), config=settings)
    admin.create_topics([new])[topic].result(WAIT_S)


def configure(admin: AdminClient, kind: ResourceType, name: str, option: str, value: str) -> None:
    entry = ConfigEntry(option, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(WAIT_S)


class Load:
    """Numbers, one after the other, into one partition; every one of them is acknowledged."""

    def __init__(self, cluster: Cluster, topic: str, fill: bytes = b"") -> None:
        self.topic = topic
        self.fill = fill
        self.sent = 0
        self.acknowledged = 0
        self.problems: list[str] = []
        self._cluster = cluster
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 500_000,
                "socket.timeout.ms": 10_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "topic.metadata.refresh.interval.ms": STALE_MS,
            }
        )

        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.problems.append(str(error))
            self.acknowledged += 1

        while not self._ended.is_set():
            if self.sent - self.acknowledged < 100:
                producer.produce(self.topic, self.value(self.sent), partition=0, on_delivery=told)
                self.sent += 1
            producer.poll(PAUSE_S)
        if producer.flush(WAIT_S):
            self.problems.append(f"{len(producer)} records are neither there nor refused")

    def value(self, number: int) -> bytes:
        return b"%d %b" % (number, self.fill)

    def goes_on(self) -> None:
        """Until all that is sent now is acknowledged, and then some."""
        target = self.sent + 50
        until(lambda: self.acknowledged >= target or self.problems, self.diagnosis, WAIT_S)
        assert not self.problems, self.problems

    def diagnosis(self) -> str:
        return f"{self.acknowledged} of {self.sent} acknowledged: {self._cluster.states()}"

    def end(self) -> None:
        self._ended.set()
        self._thread.join(2 * WAIT_S)
        assert not self._thread.is_alive()
        assert not self.problems, self.problems


@contextmanager
def load(cluster: Cluster, topic: str, fill: bytes = b"") -> Iterator[Load]:
    """Goes on meanwhile; then everything is there once, in order, alike on all replicas."""
    running = Load(cluster, topic, fill)
    try:
        running.goes_on()
        yield running
        running.goes_on()
    finally:
        running._ended.set()
    running.end()
    assert read(cluster, topic) == [running.value(n) for n in range(running.sent)]
    check_replicas(cluster, topic)


def read(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    """Everything in one partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[bytes | None] = []
    deadline = time.monotonic() + WAIT_S
    try:
        while time.monotonic() < deadline:
            for message in consumer.consume(500, 0.1):
                error = message.error()
                if error is None:
                    found.append(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
    finally:
        consumer.close()
    raise TimeoutError(f"no end of {topic}-{partition} after {len(found)} records")


def check_replicas(cluster: Cluster, topic: str, partition: int = 0) -> None:
    """Byte for byte the same, once all is whole."""
    cluster.wait_whole()

    def logs() -> dict[int, bytes]:
        return {
            member.number: b"".join(
                path.read_bytes()
                for path in sorted((member.data or Path()).glob(f"{topic}-{partition}/*.log"))
            )
            for member in cluster.members.values()
            if member.number in cluster.states()[topic, partition].replicas
        }

    until(lambda: len(set(logs().values())) == 1, lambda: {n: len(x) for n, x in logs().items()})


def leader(cluster: Cluster, topic: str, partition: int = 0) -> int:
    return cluster.states()[topic, partition].leader


@pytest.mark.several
def test_settings_changed_while_a_broker_is_down_are_in_force_when_it_is_back(
    cluster: Cluster, admin: AdminClient
) -> None:
    create(admin, "t", [3, 1, 2])
    with load(cluster, "t") as running:
        cluster.members[3].kill()
        configure(admin, ResourceType.TOPIC, "t", "max.message.bytes", "1500")
        running.goes_on()
        cluster.members[3].start()
        cluster.wait_whole()
        ended = barnabas("cluster", "elect", "t", servers=cluster.bootstrap_servers)
        assert ended.code == 0, ended
        until(lambda: leader(cluster, "t") == 3)
        told: list[KafkaError | None] = []
        large = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        large.produce("t", b"x" * 1600, partition=0, on_delivery=lambda e, _: told.append(e))
        assert large.flush(WAIT_S) == 0
        assert told[0] is not None
        assert told[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_topic_of_the_same_name_created_again_while_a_broker_is_down_has_nothing_of_the_old(
    cluster: Cluster, admin: AdminClient
) -> None:
    create(admin, "t", [1, 2, 3])
    with load(cluster, "t"):
        pass
    cluster.members[3].kill()
    # librdkafka may not have noticed yet that it is gone, and gives up what it has asked it.
    deleted = barnabas("topic", "delete", "t", "-y", servers=cluster.bootstrap_servers)
    assert deleted.code == 0, deleted
    until(lambda: ("t", 0) not in cluster.states())
    create(admin, "t", [1, 2])
    with load(cluster, "t"):
        cluster.members[3].start()
        cluster.wait_whole()
        moved = barnabas(
            "cluster", "reassign", "t:0=3,1,2", "--wait", servers=cluster.bootstrap_servers
        )
        assert moved.code == 0, moved
        assert cluster.states()["t", 0].replicas == [3, 1, 2]
    assert "log of another topic renamed" in cluster.members[3].log


@pytest.mark.several
def test_partitions_added_while_a_broker_does_not_answer_come_to_it_when_it_is_back(
    cluster: Cluster, admin: AdminClient
) -> None:
    """It stands still, and dies before it has heard of them. Once found dead it is given none."""
    create(admin, "t", [1, 2, 3])
    grown = CreatePartitionsTopic(name="t", count=5, assignments=None)
    request = CreatePartitionsRequest(topics=[grown], timeout_ms=60_000, validate_only=False)
    with load(cluster, "t"):
        controller = cluster.members[cluster.controller()]
        victim = next(each for each in cluster.members.values() if each is not controller)
        with RawClient(controller.host, controller.port) as client:
            victim.signal(signal.SIGSTOP)
            answer = client.call(request, 3, CreatePartitionsResponse)
        assert not answer.results[0].error_code, answer
        victim.kill()
        until(lambda: len([p for p in cluster.states() if p[0] == "t"]) == 5)
        victim.start()
        cluster.wait_whole()
    for number in range(1, 5):
        assert read(cluster, "t", number) == []


@pytest.mark.several
@pytest.mark.parametrize("who", ["source", "target", "controller"])
def test_replicas_move_under_load_while_a_broker_is_killed_in_the_middle_of_it(
    tmp_path: Path, who: str
) -> None:
    with running_cluster(tmp_path / "cluster", 4) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        create(admin, "t", [1, 2, 3], min_insync_replicas="1")
        with load(cluster, "t", b"." * 1000) as running:
            until(lambda: running.acknowledged > LARGE_RECORDS, running.diagnosis)
            victim = {"source": 1, "target": 4, "controller": cluster.controller()}[who]
            moved = barnabas(
                *("cluster", "reassign", "t:0=4,2,3", "--throttle", "1000000"),
                servers=cluster.bootstrap_servers,
            )
            assert moved.code == 0, moved
            cluster.members[victim].kill()
            running.goes_on()
            cluster.members[victim].start()
            quicker = barnabas(  # than the load, of which two replicas have something to catch up
                *("cluster", "reassign", "t:0=4,2,3", "--throttle", "1000000000", "--wait"),
                servers=cluster.bootstrap_servers,
            )
            assert quicker.code == 0, quicker
            until(lambda: cluster.states()["t", 0].replicas == [4, 2, 3], cluster.states)
            cluster.wait_whole()
        for member in cluster.members.values():
            member.check_log()


@pytest.mark.several
@pytest.mark.parametrize("allowed", ["true", "false"])
def test_a_replica_that_was_not_in_sync_leads_only_where_that_is_allowed(
    cluster: Cluster, admin: AdminClient, allowed: str
) -> None:
    create(admin, "t", [1, 2], unclean_leader_election_enable=allowed, min_insync_replicas="1")
    with load(cluster, "t"):
        pass
    cluster.members[2].kill()
    until(lambda: cluster.states()["t", 0].in_sync == [1])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("t", b"only on 1", partition=0)
    assert producer.flush(WAIT_S) == 0
    cluster.members[1].kill()
    cluster.members[2].start()
    if allowed == "false":
        until(lambda: leader(cluster, "t") < 0)
        cluster.members[1].start()
        cluster.wait_whole()
        assert read(cluster, "t")[-1] == b"only on 1"
    else:
        until(lambda: leader(cluster, "t") == 2)
        cluster.members[1].start()
        cluster.wait_whole()
        assert b"only on 1" not in read(cluster, "t")
        assert any("unclean" in member.log for member in cluster.members.values())
    check_replicas(cluster, "t")


@pytest.mark.several
def test_topics_are_made_while_one_controller_after_the_other_dies(
    cluster: Cluster, admin: AdminClient
) -> None:
    create(admin, "t", [1, 2, 3])
    with load(cluster, "t") as running:
        for turn in range(3):
            asked = admin.create_topics([NewTopic(f"made-{turn}", 3, 2)])
            first = cluster.controller()
            cluster.members[first].kill()
            until(lambda first=first: cluster.controller() not in (first, -1))  # type: ignore[misc]
            second = cluster.controller()
            cluster.members[first].start()
            cluster.members[second].kill()
            running.goes_on()
            cluster.members[second].start()
            asked[f"made-{turn}"].exception(WAIT_S)  # made or not: it may have been made twice
            cluster.wait_whole()
    for name in {topic for topic, _ in cluster.states() if topic.startswith("made-")}:
        assert read(cluster, name) == []


def test_a_broker_whose_disk_is_full_leaves_what_it_led_to_others(
    cluster: Cluster, admin: AdminClient
) -> None:
    create(admin, "t", [1, 2, 3])
    with load(cluster, "t", b"." * 1000) as running:
        member = cluster.members[1]
        until(lambda: leader(cluster, "t") == 1)
        # No file may grow any more, as if there were no room.
        resource.prlimit(member.pid, resource.RLIMIT_FSIZE, (FULL_BYTES, FULL_BYTES))
        until(lambda: leader(cluster, "t") != 1, cluster.states)
        running.goes_on()
        until(lambda: not member.is_running() or "log directory offline" in member.log)
        member.kill()  # if it has not ended by itself
        member.start()
        cluster.wait_whole()


def test_a_broker_whose_data_is_of_another_cluster_is_refused_in_words(
    cluster: Cluster, tmp_path: Path
) -> None:
    with running_cluster(tmp_path / "other", 1) as other:
        other.members[1].stop()
        data = other.members[1].data
    assert data is not None
    member = cluster.members[3]
    assert member.data is not None
    member.stop()
    shutil.rmtree(member.data)
    shutil.copytree(data, member.data)
    with pytest.raises(RuntimeError, match="cluster"):
        member.start()
    last = member.log.splitlines()[-1]
    assert "Traceback" not in member.log
    assert "cluster" in last


def test_a_broker_with_the_directory_of_another_is_refused_in_words(cluster: Cluster) -> None:
    two, three = cluster.members[2], cluster.members[3]
    assert two.data is not None
    assert three.data is not None
    three.stop()
    shutil.rmtree(three.data)
    shutil.copytree(two.data, three.data)
    with pytest.raises(RuntimeError, match=r"node\.id|broker"):
        three.start()
    assert "Traceback" not in three.log


@pytest.mark.several
@pytest.mark.parametrize("damage", ["garbage", "cut", "gone"])
def test_a_keeper_file_that_is_none_is_refused_in_words(tmp_path: Path, damage: str) -> None:
    with running_cluster(tmp_path / "cluster") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        create(admin, "t", [1, 2, 3])
        cluster.stop()
        file = cluster.home / "keeper.db"
        for more in cluster.home.glob("keeper.db-*"):
            more.unlink()
        if damage == "gone":
            file.unlink()
        elif damage == "cut":
            file.write_bytes(file.read_bytes()[:5000])
        else:
            file.write_bytes(b"garbage" * 1000)
        for member in cluster.members.values():
            with pytest.raises(RuntimeError, match=r"keeper|cluster"):
                member.start()
            assert "Traceback" not in member.log
