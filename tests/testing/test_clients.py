"""Suites as users write them, with the clients that they use, on the fixture."""

import asyncio
import json
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
)

from barnabas.testing import AsyncKafka, Kafka


class TestConfluentKafka:
    """An application that moves paid orders to another topic."""

    def settings(self, kafka: Kafka, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": kafka.bootstrap_servers, **more}

    def test_a_consumer_reads_what_a_producer_wrote(self, kafka: Kafka) -> None:
        producer = Producer(self.settings(kafka))
        for number in range(10):
            producer.produce("orders", key=b"k", value=str(number))
        assert producer.flush(10) == 0
        consumer = Consumer(
            self.settings(kafka, **{"group.id": "billing", "auto.offset.reset": "earliest"})
        )
        consumer.subscribe(["orders"])
        found = consumer.consume(10, timeout=10)
        assert [message.value() for message in found] == [b"%d" % n for n in range(10)]
        consumer.commit(asynchronous=False)
        kafka.wait_for_lag("billing")
        consumer.close()

    def test_topics_are_ready_when_create_returns(self, kafka: Kafka) -> None:
        admin = AdminClient(self.settings(kafka))
        for future in admin.create_topics([NewTopic("orders", 3)]).values():
            future.result(10)
        assert len(admin.list_topics("orders", timeout=10).topics["orders"].partitions) == 3

    def test_a_commit_is_refused_once(self, kafka: Kafka) -> None:
        kafka.create_topic("orders")
        kafka.produce("orders", [b"1"])
        consumer = Consumer(
            self.settings(
                kafka,
                **{
                    "group.id": "billing",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                },
            )
        )
        consumer.subscribe(["orders"])
        assert consumer.consume(1, timeout=10)
        kafka.fail("OffsetCommit", "REBALANCE_IN_PROGRESS", times=1)
        with pytest.raises(Exception, match="REBALANCE_IN_PROGRESS"):
            consumer.commit(asynchronous=False)
        consumer.commit(asynchronous=False)
        assert consumer.committed([TopicPartition("orders", 0)], timeout=10)[0].offset == 1
        consumer.close()

    def test_a_transaction_is_seen_as_a_whole(self, kafka: Kafka) -> None:
        kafka.create_topic("orders")
        producer = Producer(self.settings(kafka, **{"transactional.id": "t"}))
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("orders", b"1")
        producer.flush(10)
        assert kafka.records("orders", committed_only=True) == []
        producer.commit_transaction(10)
        assert [r.value for r in kafka.records("orders", committed_only=True)] == [b"1"]


class TestAiokafka:
    async def test_a_consumer_reads_what_a_producer_wrote(self) -> None:
        aiokafka = pytest.importorskip("aiokafka")
        async with AsyncKafka() as kafka:
            await kafka.create_topic("orders", 2)
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=kafka.bootstrap_servers
            ) as producer:
                for number in range(5):
                    await producer.send_and_wait("orders", b"%d" % number, key=b"k")
            async with aiokafka.AIOKafkaConsumer(
                "orders",
                bootstrap_servers=kafka.bootstrap_servers,
                group_id="billing",
                auto_offset_reset="earliest",
            ) as consumer:
                found = [(await consumer.getone()).value for _ in range(5)]
                await consumer.commit()
            assert found == [b"%d" % n for n in range(5)]
            await kafka.wait_for_lag("billing")


class TestKafkaPython:
    def test_a_consumer_reads_what_a_producer_wrote(self, kafka: Kafka) -> None:
        python = pytest.importorskip("kafka")
        producer = python.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        kafka.create_topic("orders")
        producer.send("orders", b"1").get(10)
        producer.close()
        consumer = python.KafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            consumer_timeout_ms=10_000,
        )
        assert next(consumer).value == b"1"
        consumer.commit()
        kafka.wait_for_lag("billing")
        consumer.close()


class TestFaststream:
    async def test_a_subscriber_answers_into_another_topic(self) -> None:
        faststream = pytest.importorskip("faststream.confluent")
        async with AsyncKafka() as kafka:
            await kafka.create_topic("orders")
            await kafka.create_topic("paid")
            broker = faststream.KafkaBroker(kafka.bootstrap_servers)

            @broker.subscriber(  # type: ignore[untyped-decorator]
                "orders", group_id="billing", auto_offset_reset="earliest"
            )
            @broker.publisher("paid")  # type: ignore[untyped-decorator]
            async def handle(order: dict[str, int]) -> dict[str, int]:
                return {"paid": order["id"]}

            async with broker:
                await broker.start()
                await broker.publish({"id": 1}, "orders")
                (record,) = await kafka.wait_for_records("paid", 1)
            assert json.loads(record.value) == {"paid": 1}
            await asyncio.sleep(0)
