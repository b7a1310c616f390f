"""librdkafka, through confluent-kafka."""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tests.compat.adapters.client import (
    Headers,
    Placement,
    Record,
    Refused,
    Seen,
    Setting,
    raise_refused,
    read_exactly,
)
from tests.process import REPLICAS
from tests.waiting import WAIT_S

# Its stubs say less than it offers.
ck: Any = import_module("confluent_kafka")
admin: Any = import_module("confluent_kafka.admin")

QUIET = {"log_level": 2}  # not every connection that a stopped broker refuses
OVERRIDE = 1  # ConfigSource: dynamic topic config


class ConfluentProducer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._outcomes: list[int | Refused | None] = []

    def begin(self, topic: str, record: Record, partition: int = 0) -> None:
        at = len(self._outcomes)
        self._outcomes.append(None)

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self._outcomes[at] = Refused(error.code(), error.str())
            else:
                offset = message.offset()
                # With acks=0 librdkafka makes up an offset for the first record only.
                self._outcomes[at] = -1 if offset is None else offset

        more = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                self._producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition,
                    on_delivery=delivered,
                    headers=list(record.headers),
                    **more,
                )
                return
            except BufferError:
                assert time.monotonic() < deadline
                self._producer.poll(0.1)
            except ck.KafkaException as error:
                raise Refused(error.args[0].code(), error.args[0].str()) from None

    def finish(self) -> list[int | Refused]:
        left = self._producer.flush(WAIT_S)
        outcomes, self._outcomes = self._outcomes, []
        if left:
            raise TimeoutError(f"{left} records were neither acknowledged nor refused")
        return [outcome for outcome in outcomes if outcome is not None]

    def send(self, topic: str, records: Sequence[Record], partition: int = 0) -> list[int]:
        for record in records:
            self.begin(topic, record, partition)
        return raise_refused(self.finish())


class ConfluentConsumer:
    def __init__(self, consumer: Any, topic: str, partition: int) -> None:
        self._consumer = consumer
        self._topic = topic
        self._partition = partition

    def read(self, count: int) -> list[Seen]:
        def read(most: int) -> Iterator[Seen]:
            return map(_seen, self._consumer.consume(most, 0.2))

        return read_exactly(count, self._topic, read)

    def poll_nothing(self) -> None:
        assert self._consumer.poll(0.5) is None

    def seek(self, offset: int) -> None:
        self._consumer.seek(ck.TopicPartition(self._topic, self._partition, offset))


def _seen(message: Any) -> Seen:
    error = message.error()
    if error is not None:
        raise Refused(error.code(), error.str())
    kind, timestamp = message.timestamp()
    raw: Any = message.headers()
    headers: Headers = tuple((name, value) for name, value in raw or ())
    offset = message.offset()
    assert offset is not None
    return Seen(
        offset,
        timestamp,
        kind == ck.TIMESTAMP_LOG_APPEND_TIME,
        message.key(),
        message.value(),
        headers,
    )


class ConfluentClient:
    name = "confluent"

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._admin = admin.AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})

    def close(self) -> None:
        del self._admin  # its threads end with it

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replicas: int = REPLICAS,
    ) -> None:
        topic = admin.NewTopic(name, partitions, replicas, config=dict(configs or {}))
        _one(self._admin.create_topics([topic], request_timeout=WAIT_S))

    def delete_topic(self, name: str) -> None:
        _one(self._admin.delete_topics([name], request_timeout=WAIT_S))

    def add_partitions(self, name: str, total: int) -> None:
        more = admin.NewPartitions(name, total)
        _one(self._admin.create_partitions([more], request_timeout=WAIT_S))

    def topic_names(self) -> set[str]:
        return set(self._admin.list_topics(timeout=WAIT_S).topics)

    def partitions(self, name: str) -> dict[int, Placement]:
        topics = ck.TopicCollection([name])
        description = _one(self._admin.describe_topics(topics, request_timeout=WAIT_S))
        return {
            each.id: Placement(
                each.leader.id,
                tuple(node.id for node in each.replicas),
                tuple(node.id for node in each.isr),
            )
            for each in description.partitions
        }

    # Configuration

    def configs(self, topic: str) -> dict[str, Setting]:
        return self._configs(admin.ConfigResource(admin.ResourceType.TOPIC, topic))

    def broker_configs(self, broker: int) -> dict[str, Setting]:
        return self._configs(admin.ConfigResource(admin.ResourceType.BROKER, str(broker)))

    def _configs(self, resource: Any) -> dict[str, Setting]:
        entries = _one(self._admin.describe_configs([resource], request_timeout=WAIT_S))
        return {
            name: Setting(entry.value, entry.source == OVERRIDE) for name, entry in entries.items()
        }

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, topic, set_config=dict(configs))
        with warnings.catch_warnings():  # still there, still used, and not what it deprecates
            warnings.simplefilter("ignore", DeprecationWarning)
            futures = self._admin.alter_configs([resource], request_timeout=WAIT_S)
        _one(futures)

    def alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        changes = [
            admin.ConfigEntry(
                name,
                value or "",
                incremental_operation=admin.AlterConfigOpType.DELETE
                if value is None
                else admin.AlterConfigOpType.SET,
            )
            for name, value in configs.items()
        ]
        resource = admin.ConfigResource(
            admin.ResourceType.TOPIC, topic, incremental_configs=changes
        )
        _one(self._admin.incremental_alter_configs([resource], request_timeout=WAIT_S))

    # Records

    @contextmanager
    def producer(
        self,
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> Iterator[ConfluentProducer]:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._servers,
            "compression.type": codec,
            "acks": acks,
            "enable.idempotence": idempotent,
            "linger.ms": 5,
            "message.max.bytes": 20_000_000,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.max.ms": 200,
            "socket.keepalive.enable": True,
            **QUIET,
            **(options or {}),
        }
        producer = ConfluentProducer(ck.Producer(settings))
        yield producer
        producer.finish()

    @contextmanager
    def consumer(
        self,
        topic: str,
        offset: int = 0,
        *,
        partition: int = 0,
        reset: str = "none",
        max_wait_ms: int = 500,
    ) -> Iterator[ConfluentConsumer]:
        consumer = self._consumer(
            {
                "auto.offset.reset": "error" if reset == "none" else reset,
                "fetch.wait.max.ms": max_wait_ms,
                "fetch.error.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "socket.timeout.ms": max_wait_ms + 60_000,
                "message.max.bytes": 20_000_000,
                "fetch.message.max.bytes": 20_000_000,
                "check.crcs": True,
            }
        )
        consumer.assign([ck.TopicPartition(topic, partition, offset)])
        try:
            yield ConfluentConsumer(consumer, topic, partition)
        finally:
            consumer.close()

    def _consumer(self, more: Mapping[str, object]) -> Any:
        return ck.Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "assigned",  # the library wants one; nothing is ever committed
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                **QUIET,
                **more,
            }
        )

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        where = ck.TopicPartition(topic, partition, before)
        deleted = _one(self._admin.delete_records([where], request_timeout=WAIT_S))
        return int(deleted.low_watermark)

    # Offsets

    def earliest(self, topic: str, partition: int = 0) -> int:
        return self._offset(topic, partition, admin.OffsetSpec.earliest())

    def latest(self, topic: str, partition: int = 0) -> int:
        return self._offset(topic, partition, admin.OffsetSpec.latest())

    def at_max_timestamp(self, topic: str, partition: int = 0) -> int:
        return self._offset(topic, partition, admin.OffsetSpec.max_timestamp())

    def at_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        consumer = self._consumer({})
        try:
            asked = [ck.TopicPartition(topic, partition, timestamp_ms)]
            (found,) = consumer.offsets_for_times(asked, timeout=WAIT_S)
        except ck.KafkaException as error:
            raise Refused(error.args[0].code(), error.args[0].str()) from None
        finally:
            consumer.close()
        if found.error is not None:
            raise Refused(found.error.code(), found.error.str())
        return None if found.offset == ck.OFFSET_END else int(found.offset)

    def _offset(self, topic: str, partition: int, spec: Any) -> int:
        where = ck.TopicPartition(topic, partition)
        return int(_one(self._admin.list_offsets({where: spec}, request_timeout=WAIT_S)).offset)


def _one(futures: "Mapping[Any, Future[Any]]") -> Any:
    (future,) = futures.values()
    try:
        return future.result(WAIT_S)
    except ck.KafkaException as error:
        raise Refused(error.args[0].code(), error.args[0].str()) from None
