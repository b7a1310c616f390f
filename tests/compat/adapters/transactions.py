"""Transactional producers of other client libraries, under the names that Kafka's own has.

Each reads a topic with a consumer of its library, so that the offsets that it sends belong to a
member of a group.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
from aiokafka.errors import KafkaError as AiokafkaError
from kafka.errors import KafkaError as KafkaPythonError

from tests.compat.adapters.aiokafka import Loop
from tests.compat.adapters.client import Refused
from tests.waiting import WAIT_S

Position = tuple[str, int]


class TransactionalProducer(Protocol):
    """Blocks until each step is done; raises Refused, or the library's own error."""

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, value: bytes) -> None: ...

    def flush(self) -> None:
        """All records that were sent are in the log."""

    def read(self, topic: str, group: str, count: int) -> list[bytes]:
        """Records of a topic by a member of a group, from its committed offsets."""

    def send_offsets(self) -> None:
        """The offsets behind the records that `read` returned."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class ConfluentTransactions:
    """librdkafka: protocol 1."""

    def __init__(self, servers: str, id_: str) -> None:
        self._servers = servers
        self._consumer: Any = None
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "transactional.id": id_}
        )
        self._producer.init_transactions(WAIT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.produce(topic, value, partition=partition)

    def flush(self) -> None:
        assert self._producer.flush(WAIT_S) == 0

    def read(self, topic: str, group: str, count: int) -> list[bytes]:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.subscribe([topic])
        found: list[Any] = self._consumer.consume(count, WAIT_S)
        assert len(found) == count
        return [message.value() for message in found]

    def send_offsets(self) -> None:
        offsets = self._consumer.position(self._consumer.assignment())
        metadata = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(offsets, metadata, WAIT_S)

    def commit(self) -> None:
        self._producer.commit_transaction(WAIT_S)
        self._leave()

    def abort(self) -> None:
        self._producer.abort_transaction(WAIT_S)
        self._leave()

    def _leave(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def close(self) -> None:
        self._leave()


class KafkaPythonTransactions:
    """kafka-python: protocol 1."""

    def __init__(self, servers: str, id_: str) -> None:
        self._servers = servers
        self._consumer: Any = None
        self._read: dict[Any, int] = {}
        self._producer: Any = kafka.KafkaProducer(
            bootstrap_servers=servers, transactional_id=id_, max_block_ms=WAIT_S * 1000
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.send(topic, value, partition=partition)

    def flush(self) -> None:
        self._producer.flush(WAIT_S)

    def read(self, topic: str, group: str, count: int) -> list[bytes]:
        self._consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=self._servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            consumer_timeout_ms=WAIT_S * 1000,
        )
        found = [next(self._consumer) for _ in range(count)]
        self._read = {
            kafka.TopicPartition(each.topic, each.partition): each.offset + 1 for each in found
        }
        return [each.value for each in found]

    def send_offsets(self) -> None:
        offsets = {at: kafka.OffsetAndMetadata(end, "", -1) for at, end in self._read.items()}
        self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())

    def commit(self) -> None:
        self._producer.commit_transaction()
        self._leave()

    def abort(self) -> None:
        self._producer.abort_transaction()
        self._leave()

    def _leave(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def close(self) -> None:
        self._leave()
        self._producer.close(timeout=WAIT_S)


class AiokafkaTransactions:
    """aiokafka: protocol 1, in its oldest versions."""

    def __init__(self, servers: str, id_: str) -> None:
        self._servers = servers
        self._group = ""
        self._read: Mapping[Any, int] = {}
        self._sent: list[Any] = []
        self._loop = Loop()
        self._producer: Any = self._loop.call(
            lambda: aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id=id_)
        )
        try:
            self._loop.run(self._producer.start())
        except BaseException:
            self._loop.close()
            raise

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._sent.append(self._loop.run(self._producer.send(topic, value, partition=partition)))

    def flush(self) -> None:
        self._loop.run(self._producer.flush())
        sent, self._sent = self._sent, []
        for each in sent:  # a record that failed says so here
            if each.exception() is not None:
                raise Refused(-1, repr(each.exception()))

    def read(self, topic: str, group: str, count: int) -> list[bytes]:
        async def read() -> Sequence[Any]:
            consumer = aiokafka.AIOKafkaConsumer(
                topic,
                bootstrap_servers=self._servers,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            )
            await consumer.start()
            try:
                return [await consumer.getone() for _ in range(count)]
            finally:
                await consumer.stop()

        found = self._loop.run(read())
        self._group = group
        self._read = {
            aiokafka.TopicPartition(each.topic, each.partition): each.offset + 1 for each in found
        }
        return [each.value for each in found]

    def send_offsets(self) -> None:
        self._loop.run(self._producer.send_offsets_to_transaction(self._read, self._group))

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def close(self) -> None:
        try:
            self._loop.run(self._producer.stop())
        finally:
            self._loop.close()


TRANSACTIONS: dict[str, type[Any]] = {
    "confluent": ConfluentTransactions,
    "kafka-python": KafkaPythonTransactions,
    "aiokafka": AiokafkaTransactions,
}
FENCED = (confluent_kafka.KafkaException, KafkaPythonError, AiokafkaError, Refused)
