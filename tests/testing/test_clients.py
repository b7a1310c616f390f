"""A suite as users of confluent-kafka write it, on the fixture."""

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
)

from barnabas.testing import Kafka
from tests.waiting import WAIT_S


class TestConfluentKafka:
    """An application that moves paid orders to another topic."""

    def settings(self, kafka: Kafka, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": kafka.bootstrap_servers, **more}

    def test_a_consumer_reads_what_a_producer_wrote(self, kafka: Kafka) -> None:
        producer = Producer(self.settings(kafka))
        for number in range(10):
            producer.produce("orders", key=b"k", value=str(number))
        assert producer.flush(WAIT_S) == 0
        consumer = Consumer(
            self.settings(kafka, **{"group.id": "billing", "auto.offset.reset": "earliest"})
        )
        consumer.subscribe(["orders"])
        found = consumer.consume(10, timeout=WAIT_S)
        assert [message.value() for message in found] == [b"%d" % n for n in range(10)]
        consumer.commit(asynchronous=False)
        kafka.wait_for_lag("billing")
        consumer.close()

    def test_topics_are_ready_when_create_returns(self, kafka: Kafka) -> None:
        admin = AdminClient(self.settings(kafka))
        for future in admin.create_topics([NewTopic("orders", 3)]).values():
            future.result(WAIT_S)
        assert len(admin.list_topics("orders", timeout=WAIT_S).topics["orders"].partitions) == 3

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
        assert consumer.consume(1, timeout=WAIT_S)
        kafka.fail("OffsetCommit", "REBALANCE_IN_PROGRESS", times=1)
        with pytest.raises(Exception, match="REBALANCE_IN_PROGRESS"):
            consumer.commit(asynchronous=False)
        consumer.commit(asynchronous=False)
        assert consumer.committed([TopicPartition("orders", 0)], timeout=WAIT_S)[0].offset == 1
        consumer.close()

    def test_a_transaction_is_seen_as_a_whole(self, kafka: Kafka) -> None:
        kafka.create_topic("orders")
        producer = Producer(self.settings(kafka, **{"transactional.id": "t"}))
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce("orders", b"1")
        producer.flush(WAIT_S)
        assert kafka.records("orders", committed_only=True) == []
        producer.commit_transaction(WAIT_S)
        assert [r.value for r in kafka.records("orders", committed_only=True)] == [b"1"]
