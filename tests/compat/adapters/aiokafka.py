"""aiokafka: asyncio, and the oldest versions of requests that anyone still sends.

Its event loop runs in a thread, so that it works on between a test's calls, as it would in a
program.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import aiokafka
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from tests.compat.adapters.client import (
    NotOffered,
    Placement,
    Record,
    Refused,
    Seen,
    Setting,
    raise_refused,
    read_exactly,
    seen_by_python,
)
from tests.process import REPLICAS
from tests.waiting import WAIT_S

T = TypeVar("T")
OVERRIDE = 1  # ConfigSource: dynamic topic config


def refused(error: KafkaError) -> Refused:
    return Refused(getattr(error, "errno", -1), f"{type(error).__name__} {error}")


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="aiokafka")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S * 2)
        except KafkaError as error:
            raise refused(error) from None

    def call(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return self.run(run())

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WAIT_S)
        self.loop.close()


class AiokafkaProducer:
    def __init__(self, producer: Any, loop: Loop) -> None:
        self._producer = producer
        self._loop = loop
        self._begun: list[Any] = []

    def begin(self, topic: str, record: Record, partition: int = 0) -> None:
        self._begun.append(self._loop.run(self._send(topic, record, partition)))

    async def _send(self, topic: str, record: Record, partition: int) -> Any:
        return await self._producer.send(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=partition,
            timestamp_ms=record.timestamp_ms,
        )

    def finish(self) -> list[int | Refused]:
        begun, self._begun = self._begun, []
        return self._loop.run(self._finish(begun))

    async def _finish(self, begun: list[Any]) -> list[int | Refused]:
        outcomes: list[int | Refused] = []
        for future in begun:
            try:
                sent = await asyncio.wait_for(future, WAIT_S)
                outcomes.append(-1 if sent is None else sent.offset)
            except KafkaError as error:
                outcomes.append(refused(error))
        return outcomes

    def send(self, topic: str, records: Sequence[Record], partition: int = 0) -> list[int]:
        async def send() -> list[int | Refused]:
            begun = [await self._send(topic, record, partition) for record in records]
            return await self._finish(begun)

        return raise_refused(self._loop.run(send()))


class AiokafkaConsumer:
    def __init__(self, consumer: Any, where: TopicPartition, loop: Loop) -> None:
        self._consumer = consumer
        self._where = where
        self._loop = loop

    def read(self, count: int) -> list[Seen]:
        def read(most: int) -> Iterator[Seen]:
            found = self._loop.run(self._consumer.getmany(timeout_ms=200, max_records=most))
            return map(seen_by_python, found.get(self._where, ()))

        return read_exactly(count, self._where, read)

    def poll_nothing(self) -> None:
        assert not self._loop.run(self._consumer.getmany(timeout_ms=500))

    def seek(self, offset: int) -> None:
        self._loop.call(lambda: self._consumer.seek(self._where, offset))


class AiokafkaClient:
    name = "aiokafka"

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._loop = Loop()
        self._admin: Any = self._loop.call(
            lambda: AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
        )
        self._loop.run(self._admin.start())

    def close(self) -> None:
        self._loop.run(self._admin.close())
        self._loop.close()

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replicas: int = REPLICAS,
    ) -> None:
        topic = NewTopic(name, partitions, replicas, topic_configs=dict(configs or {}))
        response = self._loop.run(self._admin.create_topics([topic]))
        for _, code, *detail in response.topic_errors:
            if code:
                raise Refused(code, str(detail))

    def delete_topic(self, name: str) -> None:
        response = self._loop.run(self._admin.delete_topics([name]))
        for _, code in response.topic_error_codes:
            if code:
                raise Refused(code)

    def add_partitions(self, name: str, total: int) -> None:
        self._loop.run(self._admin.create_partitions({name: NewPartitions(total)}))

    def topic_names(self) -> set[str]:
        return set(self._loop.run(self._admin.list_topics()))

    def partitions(self, name: str) -> dict[int, Placement]:
        (topic,) = self._loop.run(self._admin.describe_topics([name]))
        if topic["error_code"]:
            raise Refused(topic["error_code"])
        return {
            each["partition"]: Placement(
                each["leader"], tuple(each["replicas"]), tuple(each["isr"])
            )
            for each in topic["partitions"]
        }

    # Configuration

    def configs(self, topic: str) -> dict[str, Setting]:
        return self._configs(ConfigResource(ConfigResourceType.TOPIC, topic))

    def broker_configs(self, broker: int) -> dict[str, Setting]:
        return self._configs(ConfigResource(ConfigResourceType.BROKER, str(broker)))

    def _configs(self, resource: Any) -> dict[str, Setting]:
        (response,) = self._loop.run(self._admin.describe_configs([resource]))
        ((code, message, _, _, entries),) = response.resources
        if code:
            raise Refused(code, message)
        return {name: Setting(value, source == OVERRIDE) for name, value, _, source, *_ in entries}

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        (response,) = self._loop.run(self._admin.alter_configs([resource]))
        for code, message, *_ in response.resources:
            if code:
                raise Refused(code, message)

    def alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        raise NotOffered("aiokafka has no IncrementalAlterConfigs")

    # Records

    @contextmanager
    def producer(
        self,
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> Iterator[AiokafkaProducer]:
        settings = {
            "bootstrap_servers": self._servers,
            "compression_type": None if codec == "none" else codec,
            "acks": acks if acks == "all" else int(acks),
            "enable_idempotence": idempotent,
            "linger_ms": 5,
            "max_request_size": 20_000_000,
            **(options or {}),
        }
        producer = self._loop.call(lambda: aiokafka.AIOKafkaProducer(**settings))
        self._loop.run(producer.start())
        try:
            yield AiokafkaProducer(producer, self._loop)
        finally:
            self._loop.run(producer.stop())

    @contextmanager
    def consumer(
        self,
        topic: str,
        offset: int = 0,
        *,
        partition: int = 0,
        reset: str = "none",
        max_wait_ms: int = 500,
    ) -> Iterator[AiokafkaConsumer]:
        where = TopicPartition(topic, partition)
        with self._consumer(
            auto_offset_reset=reset,
            fetch_max_wait_ms=max_wait_ms,
            request_timeout_ms=max_wait_ms + 60_000,
        ) as consumer:

            def begin() -> None:
                consumer.assign([where])
                consumer.seek(where, offset)

            self._loop.call(begin)
            yield AiokafkaConsumer(consumer, where, self._loop)

    @contextmanager
    def _consumer(self, **more: object) -> Iterator[Any]:
        consumer = self._loop.call(
            lambda: aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self._servers, enable_auto_commit=False, **more
            )
        )
        self._loop.run(consumer.start())
        try:
            yield consumer
        finally:
            self._loop.run(consumer.stop())

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        wanted = {where: RecordsToDelete(before)}
        return int(self._loop.run(self._admin.delete_records(wanted))[where])

    # Offsets

    def earliest(self, topic: str, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            return int(self._loop.run(consumer.beginning_offsets([where]))[where])

    def latest(self, topic: str, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            return int(self._loop.run(consumer.end_offsets([where]))[where])

    def at_max_timestamp(self, topic: str, partition: int = 0) -> int:
        raise NotOffered("aiokafka asks ListOffsets in versions before -3")

    def at_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        where = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            found = self._loop.run(consumer.offsets_for_times({where: timestamp_ms}))[where]
        return None if found is None else int(found.offset)
