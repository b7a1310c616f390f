"""Files with open, aborted and compacted transactions move to Apache Kafka and back.

Each broker ends the transaction that the other one left open, with its records and its offsets.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from barnabas.model.errors import Code
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from barnabas.wire.records import Record, encode_batch
from tests.compat.conftest import Address
from tests.compat.raw_transactions import RawProducer
from tests.conftest import StartBroker
from tests.raw import RawClient
from tests.support import kafka
from tests.waiting import until

GROUP = "readers"
KEYS = 3
VALUE_BYTES = 100_000  # ten transactions to a segment: Kafka's smallest has 1 MB
OPTIONS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": "100",
}
COMPACTED = (
    ("cleanup.policy", "compact"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("segment.bytes", "1048576"),
)
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


class Writer(RawProducer):
    """Of records with keys, and of offsets. `left`: one whose transaction it goes on with."""

    def __init__(self, broker: Address, id_: str, left: RawProducer | None = None) -> None:
        super().__init__(broker, id_)
        if left is None:
            assert self.init() is Code.NONE
        else:
            self.producer_id, self.epoch = left.producer_id, left.epoch
            self.sequence = left.sequence

    def write(self, topic: str, key: bytes, value: bytes) -> None:
        def written() -> bool:
            codes.append(self._write(topic, key, value))
            # The transaction before is not complete yet.
            return codes[-1] is not Code.NOT_ENOUGH_REPLICAS

        codes: list[Code] = []
        until(lambda: self.add(topic, 0) == {Code.NONE})
        until(written)
        assert codes[-1] is Code.NONE
        self.sequence += 1

    def _write(self, topic: str, key: bytes, value: bytes) -> Code:
        batch = encode_batch(
            [Record(0, time.time_ns() // 1_000_000, key, value)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        return self.produce_bytes(topic, batch)

    def commit_offset(self, topic: str, offset: int) -> None:
        assert self.add_offsets(GROUP) is Code.NONE
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=GROUP,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        said = self.leader.call(request, 3, TxnOffsetCommitResponse)
        assert said.topics[0].partitions[0].error_code == 0


@dataclass
class Home:
    """A broker that runs, what readers must find, and the producer with an open transaction."""

    broker: Address
    data: Path
    topic: str
    values: dict[bytes, bytes] = field(default_factory=dict)
    offset: int = -1
    open_: Writer | None = None
    opened: bytes = b""  # what the other broker left open

    def live(self, name: str) -> None:
        """Commits and aborts until the cleaner has been there; then leave one open."""
        writer = Writer(self.broker, "writer")
        for number in range(40):
            key, value = b"key %d" % (number % KEYS), f"{name} {number} ".encode()
            value += bytes(VALUE_BYTES - len(value))
            writer.write(self.topic, key, value)
            commit = number % 3 > 0
            until(lambda commit=commit: writer.end(commit=commit) is Code.NONE)  # type: ignore[misc]
            if commit:
                self.values[key] = value
        writer.close()
        until(self._compacted, lambda: self._cleaned().read_text())
        self.check()
        self.open_ = Writer(self.broker, "left open")
        self.open_.write(self.topic, b"key 0", f"{name} open".encode())
        self.open_.commit_offset(self.topic, self.offset + 1)
        self.open_.close()
        self.check()

    def _cleaned(self) -> Path:
        return self.data / "cleaner-offset-checkpoint"

    def _compacted(self) -> bool:
        cleaned = self._cleaned()
        if not cleaned.exists():
            return False
        found = [line.split() for line in cleaned.read_text().splitlines()]
        return any(line[0] == self.topic and int(line[2]) > 0 for line in found if len(line) == 3)

    def end(self, left: Writer) -> None:
        """Go on with a transaction that another broker began, and commit it."""
        self.check()
        writer = Writer(self.broker, left.id, left)
        writer.write(self.topic, b"key 1", b"the end")
        until(lambda: writer.end(commit=True) is Code.NONE)
        self.values |= {b"key 0": self.opened, b"key 1": b"the end"}
        self.offset += 1
        until(lambda: writer.state().startswith("Complete"), writer.state)
        writer.close()
        self.check()

    def check(self) -> None:
        with self._consumer("read_committed") as consumer:
            until(lambda: read(consumer, self.topic) == self.values)
        with self._consumer("read_uncommitted") as consumer:  # does not wait for pending offsets
            committed = consumer.committed([TopicPartition(self.topic, 0)], 10)[0].offset
            assert max(committed, -1) == self.offset

    @contextmanager
    def _consumer(self, isolation: str) -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()


def read(consumer: Consumer, topic: str) -> dict[bytes, bytes]:
    """The last value of each key."""
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: dict[bytes, bytes] = {}
    while True:
        message = consumer.poll(20)
        assert message is not None, f"{len(found)} keys, then silence"
        if message.error() is not None:
            return found
        found[message.key() or b""] = message.value() or b""


def move(source: Path, target: Path, topic: str) -> None:
    """The files of three partitions; each broker keeps its own ids of topics."""
    for name in (topic, "__transaction_state", "__consumer_offsets"):
        for file in (target / f"{name}-0").iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        for file in (source / f"{name}-0").iterdir():
            if file.name != "partition.metadata":
                shutil.copy(file, target / f"{name}-0")
    for name in CHECKPOINTS:
        shutil.copy(source / name, target / name)


def make_topics(broker: Address, topic: str) -> None:
    with RawClient(broker.host, broker.port) as client:
        assert client.create_topic(topic, configs=COMPACTED) == 0
        for kind in (0, 1):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[GROUP])

            def found(request: FindCoordinatorRequest = request) -> bool:
                said = client.call(request, 4, FindCoordinatorResponse)
                return said.coordinators[0].error_code == 0

            until(found)


@contextmanager
def running(properties: Path, port: int) -> Iterator[kafka.KafkaBroker]:
    broker = kafka.start(properties, port, kafka.SHORT_LIVED)
    try:
        yield broker
    finally:
        broker.stop()


def test_open_aborted_and_compacted_transactions_move_to_kafka_and_back(
    kafka_lib: Path, start_broker: StartBroker, topic: str, tmp_path: Path
) -> None:
    assert kafka_lib.exists()
    ours = start_broker(OPTIONS)
    assert ours.data is not None
    make_topics(ours, topic)
    home = Home(ours, ours.data, topic)
    home.live("ours")
    ours.stop()

    properties, port = kafka.prepare(tmp_path / "kafka", OPTIONS)
    with running(properties, port) as theirs:
        make_topics(theirs, topic)
    move(ours.data, theirs.data, topic)
    with running(properties, port) as theirs:
        away = Home(theirs, theirs.data, topic, home.values, home.offset, opened=b"ours open")
        assert home.open_ is not None
        away.end(home.open_)
        away.live("theirs")

    move(theirs.data, ours.data, topic)
    ours.start()
    back = Home(ours, ours.data, topic, away.values, away.offset, opened=b"theirs open")
    assert away.open_ is not None
    back.end(away.open_)
