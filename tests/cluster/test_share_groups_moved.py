"""Share groups whose brokers are killed: leaders of their partitions, and share coordinators.

No record is lost, none comes again after its acceptance was confirmed, and each record that was
rejected has a dead letter.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AcknowledgeType
from barnabas.client.workers.dead_letter_headers import trail_in
from barnabas.model.errors import KafkaError
from barnabas.sync import Admin, PartitionConsumer, Producer, ShareConsumer
from tests.cluster.members import Cluster, running_cluster
from tests.waiting import WAIT_S, until

OPTIONS = {
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": "10",  # each lock that ends is one
    "share.coordinator.state.topic.num.partitions": "6",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
}
PARTITIONS, MEMBERS, RECORDS = 2, 3, 300
At = tuple[int, int]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home: Path = tmp_path_factory.mktemp("cluster")
    with running_cluster(home, options=OPTIONS) as running:
        yield running
        for member in running.members.values():
            member.check_log()


class Queue:
    """Members in threads, and what became of each record."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers, self.topic, self.group = servers, topic, f"{topic}-queue"
        self.letters = f"{topic}-dead"
        self.accepted: set[At] = set()  # or rejected: confirmed
        self.rejected: set[At] = set()
        self.unknown: set[At] = set()  # stored or not: the answer was lost
        self.again: list[At] = []  # delivered after that
        self.delivered: set[At] = set()
        self.failed: list[BaseException] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(MEMBERS)]

    def __enter__(self) -> "Queue":
        options = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": "15000",
            "errors.deadletterqueue.topic.name": self.letters,
        }
        with Admin(bootstrap_servers=self.servers) as admin:
            admin.alter_group(self.group, put=options)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(WAIT_S)

    def produce(self, count: int) -> set[At]:
        with Producer(bootstrap_servers=self.servers, acks="all") as producer:
            sent = [
                producer.send_nowait(self.topic, b"%d" % number, partition=number % PARTITIONS)
                for number in range(count)
            ]
            producer.flush()
            return {(each.result().partition, each.result().offset) for each in sent}

    def _read(self) -> None:
        try:
            with ShareConsumer(
                self.topic,
                bootstrap_servers=self.servers,
                group_id=self.group,
                share_acknowledgement_mode="explicit",
                max_poll_records=20,
            ) as consumer:
                while not self._stop.is_set():
                    self._round(consumer)
        except BaseException as error:
            self.failed.append(error)

    def _round(self, consumer: ShareConsumer[Any, Any]) -> None:
        try:
            messages = consumer.poll(timeout=0.5)
        except KafkaError:
            return  # a broker is away
        finished: set[At] = set()
        rejected: set[At] = set()
        with self._lock:
            for message in messages:
                at = (message.partition, message.offset)
                self.delivered.add(at)
                if at in self.accepted:
                    self.again.append(at)
        for message in messages:
            at = (message.partition, message.offset)
            type_ = AcknowledgeType.ACCEPT
            if message.offset % 7 == 0 and message.delivery_count == 1:
                type_ = AcknowledgeType.RELEASE
            else:
                finished.add(at)
                if message.offset % 11 == 0:
                    type_ = AcknowledgeType.REJECT
                    rejected.add(at)
            consumer.acknowledge(message, type_)
        if not messages:
            return
        results = consumer.commit_sync()
        with self._lock:
            sure = {place.partition for place, error in results.items() if error is None}
            self.accepted |= {at for at in finished if at[0] in sure}
            self.rejected |= {at for at in rejected if at[0] in sure}
            self.unknown |= {at for at in finished if at[0] not in sure}

    def lag(self) -> int:
        with Admin(bootstrap_servers=self.servers) as admin:
            return sum(each.lag for each in admin.group_offsets(self.group).values())

    def with_letters(self) -> set[At]:
        """The records that have a dead letter."""
        found: set[At] = set()
        places = [(self.letters, number) for number in range(PARTITIONS)]
        with PartitionConsumer(
            places, bootstrap_servers=self.servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.stop_at(consumer.end_offsets())
            for message in consumer:
                trail = trail_in(message.headers)
                assert trail is not None
                found.add((trail.origin.partition, trail.origin.offset))
        return found

    def describe(self) -> str:
        return f"{len(self.accepted)} accepted, {len(self.delivered)} delivered, {self.failed}"


def test_accepted_records_do_not_come_again_and_none_is_lost(cluster: Cluster, topic: str) -> None:
    queue = Queue(cluster.bootstrap_servers, topic)
    cluster.create_topic(topic, PARTITIONS)
    cluster.create_topic(queue.letters, PARTITIONS)
    with queue:
        produced = queue.produce(RECORDS)
        until(lambda: len(queue.accepted) > 50, queue.describe)
        for member in cluster.members.values():
            member.kill()
            produced |= queue.produce(RECORDS)
            member.start()
            cluster.wait_whole()
        until(lambda: queue.accepted | queue.unknown >= produced, queue.describe)
        until(lambda: queue.lag() == 0, queue.describe)
    assert queue.failed == []
    assert queue.again == []
    assert queue.delivered <= produced
    assert queue.rejected
    assert queue.with_letters() >= queue.rejected
