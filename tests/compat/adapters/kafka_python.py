"""kafka-python: pure Python, fetch sessions, the newest versions of most requests."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from barnabas.model.errors import Code
from tests.compat.adapters.client import (
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

with warnings.catch_warnings():  # it reads its schemas by a deprecated call of the library
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, NewTopic, OffsetSpec
    from kafka.errors import KafkaError, NodeNotReadyError
    from kafka.net import inet

T = TypeVar("T")


_connect = inet.KafkaNetSocket.sock_connect


async def _connect_or_close(self: Any, net: Any, sock: Any, *more: Any, **most: Any) -> Any:
    """The library forgets a socket that did not connect, and the warning would hit anyone."""
    try:
        return await _connect(self, net, sock, *more, **most)
    except BaseException:
        sock.close()
        raise


inet.KafkaNetSocket.sock_connect = _connect_or_close


def refused(error: KafkaError) -> Refused:
    return Refused(getattr(error, "errno", -1), f"{type(error).__name__} {error}")


def asked(call: Callable[[], T]) -> T:
    """NodeNotReadyError is raised before anything is sent: while the library waits to connect again
    to a broker that was restarted."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return call()
        except NodeNotReadyError as error:
            if time.monotonic() > deadline:
                raise refused(error) from None
            time.sleep(0.05)
        except KafkaError as error:
            raise refused(error) from None


class KafkaPythonProducer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._begun: list[Any] = []

    def begin(self, topic: str, record: Record, partition: int = 0) -> None:
        self._begun.append(
            asked(
                lambda: self._producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                )
            )
        )

    def finish(self) -> list[int | Refused]:
        begun, self._begun = self._begun, []
        self._producer.flush(WAIT_S)
        outcomes: list[int | Refused] = []
        for future in begun:
            try:
                outcomes.append(int(future.get(WAIT_S).offset))
            except KafkaError as error:
                outcomes.append(refused(error))
        return outcomes

    def send(self, topic: str, records: Sequence[Record], partition: int = 0) -> list[int]:
        for record in records:
            self.begin(topic, record, partition)
        return raise_refused(self.finish())


class KafkaPythonConsumer:
    def __init__(self, consumer: Any, where: TopicPartition) -> None:
        self._consumer = consumer
        self._where = where

    def read(self, count: int) -> list[Seen]:
        def read(most: int) -> Iterator[Seen]:
            return map(seen_by_python, asked(partial(self._poll, most)))

        return read_exactly(count, self._where, read)

    def _poll(self, count: int) -> list[Any]:
        found = self._consumer.poll(timeout_ms=200, max_records=count)
        messages: list[Any] = found.get(self._where, [])
        return messages

    def poll_nothing(self) -> None:
        assert not self._consumer.poll(timeout_ms=500)

    def seek(self, offset: int) -> None:
        self._consumer.seek(self._where, offset)


class KafkaPythonClient:
    name = "kafka-python"

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)

    def close(self) -> None:
        self._admin.close()

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
        asked(lambda: self._admin.create_topics([topic]))

    def delete_topic(self, name: str) -> None:
        asked(lambda: self._admin.delete_topics([name]))

    def add_partitions(self, name: str, total: int) -> None:
        asked(lambda: self._admin.create_partitions({name: total}))

    def topic_names(self) -> set[str]:
        return set(self._admin.list_topics())

    def partitions(self, name: str) -> dict[int, Placement]:
        (topic,) = asked(lambda: self._admin.describe_topics([name]))
        if topic["error_code"]:
            raise Refused(topic["error_code"])
        return {
            each["partition_index"]: Placement(
                each["leader_id"], tuple(each["replica_nodes"]), tuple(each["isr_nodes"])
            )
            for each in topic["partitions"]
        }

    # Configuration

    def configs(self, topic: str) -> dict[str, Setting]:
        return self._configs(ConfigResourceType.TOPIC, topic)

    def broker_configs(self, broker: int) -> dict[str, Setting]:
        return self._configs(ConfigResourceType.BROKER, str(broker))

    def _configs(self, kind: ConfigResourceType, name: str) -> dict[str, Setting]:
        resource = ConfigResource(kind, name)
        found = asked(lambda: self._admin.describe_configs([resource], config_filter="all"))
        options = found[kind.name.lower()][name]
        if not options:  # the library drops the error that came with them
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION)
        return {
            option: Setting(data["value"], "TOPIC" in str(data["config_source"]))
            for option, data in options.items()
        }

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        # The library adds what is set already, so the old ones have to go first.
        cleared = ConfigResource(ConfigResourceType.TOPIC, topic, {})
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        for change in (
            lambda: self._admin.reset_configs([cleared], incremental=False),
            lambda: self._admin.alter_configs(
                [resource], incremental=False, raise_on_unknown=False
            ),
        ):
            _check(asked(change)["topic"][topic])

    def alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        changes = {
            name: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
            for name, value in configs.items()
        }
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, changes)
        done = asked(
            lambda: self._admin.alter_configs([resource], incremental=True, raise_on_unknown=False)
        )
        _check(done["topic"][topic])

    # Records

    @contextmanager
    def producer(
        self,
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> Iterator[KafkaPythonProducer]:
        settings = {
            "bootstrap_servers": self._servers,
            "compression_type": None if codec == "none" else codec,
            "acks": acks if acks == "all" else int(acks),
            "enable_idempotence": idempotent,
            "linger_ms": 5,
            "max_request_size": 20_000_000,
            "reconnect_backoff_max_ms": 200,
            "metrics_enabled": False,
            **(options or {}),
        }
        producer = KafkaProducer(**settings)
        try:
            yield KafkaPythonProducer(producer)
        finally:
            producer.close()

    @contextmanager
    def consumer(
        self,
        topic: str,
        offset: int = 0,
        *,
        partition: int = 0,
        reset: str = "none",
        max_wait_ms: int = 500,
    ) -> Iterator[KafkaPythonConsumer]:
        consumer = self._consumer(
            auto_offset_reset=reset,
            fetch_max_wait_ms=max_wait_ms,
            request_timeout_ms=max_wait_ms + 60_000,
            connections_max_idle_ms=max_wait_ms + 120_000,
        )
        where = TopicPartition(topic, partition)
        try:
            consumer.assign([where])
            consumer.seek(where, offset)
            yield KafkaPythonConsumer(consumer, where)
        finally:
            consumer.close()

    def _consumer(self, **more: object) -> Any:
        return KafkaConsumer(
            bootstrap_servers=self._servers,
            group_id=None,
            enable_auto_commit=False,
            reconnect_backoff_max_ms=200,
            metrics_enabled=False,
            **more,
        )

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        deleted = asked(lambda: self._admin.delete_records({where: before}))
        return int(deleted[where]["low_watermark"])

    # Offsets

    def earliest(self, topic: str, partition: int = 0) -> int:
        return self._offset(topic, partition, OffsetSpec.EARLIEST)

    def latest(self, topic: str, partition: int = 0) -> int:
        return self._offset(topic, partition, OffsetSpec.LATEST)

    def at_max_timestamp(self, topic: str, partition: int = 0) -> int:
        return self._offset(topic, partition, OffsetSpec.MAX_TIMESTAMP)

    def at_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        where = TopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            found = asked(lambda: consumer.offsets_for_times({where: timestamp_ms}))[where]
        finally:
            consumer.close()
        return None if found is None else int(found.offset)

    def _offset(self, topic: str, partition: int, spec: object) -> int:
        where = TopicPartition(topic, partition)
        return int(asked(lambda: self._admin.list_partition_offsets({where: spec}))[where].offset)


def _check(outcome: str) -> None:
    """The library gives an error as text: "[Error 40] InvalidConfigurationError: ..."."""
    if outcome != "OK":
        number = outcome.removeprefix("[Error ").partition("]")[0]
        raise Refused(int(number), outcome)
