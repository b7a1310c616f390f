"""Copies a topic in transactions until it is told to end, or is killed: each record once.

    python -m tests.cluster.copier '{"library": "own", ...}'

In: CopierTask as JSON. Out: on SIGTERM it leaves and ends with 0; with another code when its
transactional id is taken over, or its client gives up: its supervisor starts another.
Always: partition n of the source goes to partition n of the target, in order. Now and then a
transaction is aborted for no reason.
"""

import faulthandler
import signal
import sys
from random import Random
from types import FrameType
from typing import Any

import confluent_kafka
import msgspec
from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

import barnabas.sync
from barnabas.client.producer.coordinator_requests import CoordinatorRequests
from barnabas.model.errors import Abortable

POLL_S = 0.1
PATIENCE_S = 60.0
ABORTED_SHARE = 0.1
HANGS_S = 90.0


class CopierTask(msgspec.Struct, frozen=True):
    """`protocol`: of groups. `version`: of transactions, for the library that has both.
    `partitions`: assigned by hand, and then no metadata of the group is sent."""

    library: str
    name: str
    servers: str
    source: str
    target: str
    group: str
    protocol: str = "classic"
    version: int = 2
    partitions: list[int] = []
    size: int = 750
    timeout_ms: int = 120_000

    @property
    def writes(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.servers,
            "transactional.id": self.name,
            "transaction.timeout.ms": self.timeout_ms,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 200,
        }

    @property
    def reads(self) -> dict[str, Any]:
        timeouts = {"session.timeout.ms": 20_000, "heartbeat.interval.ms": 500}
        return {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms" if self.library == "confluent" else "fetch.max.wait.ms": 100,
            **(timeouts if self.protocol == "classic" else {}),
        }


class Ending:
    """Whether SIGTERM has come."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def copy_own(task: CopierTask, ending: Ending, random: Random) -> None:
    CoordinatorRequests.protocol_max = task.version
    with (
        barnabas.sync.Producer(task.writes) as producer,
        barnabas.sync.Consumer(task.source, task.reads) as consumer,
    ):
        producer.init_transactions()
        while not ending.asked:
            messages = consumer.getmany(max_records=task.size, timeout=POLL_S)
            if not messages:
                continue
            try:
                with producer.transaction():
                    for each in messages:
                        producer.send_nowait(task.target, each.value, partition=each.partition)
                    offsets = {(m.topic, m.partition): m.offset + 1 for m in messages}
                    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                    if random.random() < ABORTED_SHARE:
                        raise InterruptedError
            except (Abortable, InterruptedError):
                consumer.seek_to_committed()


class ConfluentCopier:
    """librdkafka's calls say whether to repeat them, to abort, or to give up."""

    def __init__(self, task: CopierTask) -> None:
        self._task = task
        more = {"socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 200}
        self._producer = confluent_kafka.Producer({**task.writes, **more})
        self._consumer = confluent_kafka.Consumer({**task.reads, **more})
        self._taken: list[Any] = []

    def copy(self, ending: Ending, random: Random) -> None:
        task = self._task
        self._repeated(self._producer.init_transactions)
        if task.partitions:
            assigned = [TopicPartition(task.source, number) for number in task.partitions]
            self._consumer.assign(self._committed(assigned))
        else:
            self._consumer.subscribe([task.source], on_revoke=self._drop, on_lost=self._drop)
        while not ending.asked:
            # Up to 2.15 it waits for ever for a group coordinator that is no more in the metadata.
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            if self._take():
                self._transact(aborted=random.random() < ABORTED_SHARE)
        self._consumer.close()
        faulthandler.cancel_dump_traceback_later()

    def _take(self) -> bool:
        self._taken = []
        while len(self._taken) < self._task.size:
            message = self._consumer.poll(0.01 if self._taken else POLL_S)
            if message is None:
                break
            if message.error() is None:
                self._taken.append(message)
        return bool(self._taken)

    def _drop(self, *_: object) -> None:
        """Another member copies them."""
        self._taken = []

    def _transact(self, *, aborted: bool) -> None:
        positions = {message.partition(): message.offset() + 1 for message in self._taken}
        offsets = [TopicPartition(self._task.source, *each) for each in positions.items()]
        self._producer.begin_transaction()
        try:
            for each in self._taken:
                self._producer.produce(self._task.target, each.value(), partition=each.partition())
            metadata = self._consumer.consumer_group_metadata()
            self._repeated(self._producer.send_offsets_to_transaction, offsets, metadata)
            if not aborted:
                self._repeated(self._producer.commit_transaction)
                return
        except KafkaException as problem:
            if not problem.args[0].txn_requires_abort():
                raise
        self._repeated(self._producer.abort_transaction)
        for position in self._committed(self._consumer.assignment()):
            self._consumer.seek(position)

    def _committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        while True:
            try:
                found = self._consumer.committed(partitions, PATIENCE_S)
            except KafkaException as problem:
                if not problem.args[0].retriable():
                    raise
                continue
            if not any(each.error for each in found):
                break
        return [
            TopicPartition(p.topic, p.partition, p.offset if p.offset >= 0 else OFFSET_BEGINNING)
            for p in found
        ]

    def _repeated(self, call: Any, *arguments: Any) -> None:
        while True:
            try:
                call(*arguments, PATIENCE_S)
                return
            except KafkaException as problem:
                if not problem.args[0].retriable():
                    raise
                print(f"{call.__name__} again: {problem}", file=sys.stderr, flush=True)


def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=CopierTask)
    faulthandler.register(signal.SIGUSR1)  # says where it is
    ending, random = Ending(), Random(task.name)
    if task.library == "own":
        copy_own(task, ending, random)
    else:
        ConfluentCopier(task).copy(ending, random)


if __name__ == "__main__":
    main()
