"""What a test does to its broker."""

import time

import pytest

import barnabas
import barnabas.sync
from barnabas.testing import Kafka
from tests.testing.test_kafka import is_stable, reading


def test_a_request_fails_as_often_as_it_is_told_to(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.fail("Produce", "INVALID_RECORD")
    with pytest.raises(barnabas.KafkaError, match="INVALID_RECORD"):
        kafka.produce("orders", [b"1"])
    kafka.produce("orders", [b"2"])
    assert kafka.values("orders") == [b"2"], "the failed request was not carried out"


def test_a_commit_fails_for_one_client_until_it_is_healed(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.fail("OffsetCommit", "UNKNOWN_MEMBER_ID", times=None, client="one")
    with barnabas.sync.PartitionConsumer(
        [("orders", 0)],
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="billing",
        client_id="one",
    ) as consumer:
        for _ in range(2):
            with pytest.raises(barnabas.KafkaError, match="UNKNOWN_MEMBER_ID"):
                consumer.commit({("orders", 0): 0})
        kafka.heal()
        consumer.commit({("orders", 0): 0})
    assert kafka.groups() == ["billing"]


def test_a_read_fails_and_is_tried_again(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", [b"1"])
    kafka.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert kafka.values("orders") == [b"1"]


def test_requests_are_slow_until_healed(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.slow(120, api="Produce")
    before = time.monotonic()
    kafka.produce("orders", [b"1"])
    assert time.monotonic() - before >= 0.12
    kafka.heal()
    kafka.produce("orders", [b"2"])
    assert kafka.values("orders") == [b"1", b"2"]


def test_a_client_that_is_cut_off_connects_again(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    with barnabas.sync.Producer(
        bootstrap_servers=kafka.bootstrap_servers, client_id="worker"
    ) as producer:
        producer.send("orders", b"1")
        assert kafka.cut("worker") >= 1
        assert kafka.cut("somebody else") == 0
        producer.send("orders", b"2")
    assert kafka.values("orders") == [b"1", b"2"]


def test_a_client_stays_cut_off(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.cut("worker", lasting=True)
    with (
        pytest.raises(barnabas.KafkaError),
        barnabas.sync.Producer(
            bootstrap_servers=kafka.bootstrap_servers, client_id="worker", max_block_ms=50
        ) as producer,
    ):
        producer.send("orders", b"1")
    assert kafka.values("orders") == []


def test_a_full_disk_refuses_records(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", [b"1"])
    kafka.disk_full()
    with (
        pytest.raises(barnabas.KafkaError),
        barnabas.sync.Producer(
            bootstrap_servers=kafka.bootstrap_servers,
            delivery_timeout_ms=100,
            request_timeout_ms=50,
        ) as producer,
    ):
        producer.send("orders", b"2")
    kafka.disk_full(False)
    assert kafka.values("orders") == [b"1"]


def test_a_disk_that_fails_takes_the_replicas_of_its_broker_offline(
    kafka_cluster: Kafka,
) -> None:
    kafka = kafka_cluster
    kafka.create_topic("orders", replicas=2)
    kafka.produce("orders", [b"1"])
    leader = kafka.leader_of("orders")
    kafka.disk_fails(leader)
    assert kafka.replica("orders", 0, leader).role == "offline"
    kafka.wait_until(lambda: kafka.leader_of("orders") not in (leader, -1))
    kafka.produce("orders", [b"2"])
    kafka.kill(leader)
    kafka.start(leader)
    kafka.wait_until(lambda: kafka.replica("orders", 0, leader).role == "follower")
    assert kafka.values("orders") == [b"1", b"2"]


def test_a_broker_that_is_killed_comes_back_with_its_records(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", [b"1"])
    servers = kafka.bootstrap_servers
    kafka.kill()
    kafka.start()
    kafka.produce("orders", [b"2"])
    assert kafka.bootstrap_servers == servers
    assert kafka.values("orders") == [b"1", b"2"]


def test_a_paused_broker_answers_later(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.pause()
    with pytest.raises(RuntimeError, match="paused"):
        kafka.expire("billing")
    kafka.heal()
    assert kafka.topics() == ["orders"]


def test_three_brokers_fail_over(kafka_cluster: Kafka) -> None:
    kafka = kafka_cluster
    kafka.create_topic("orders", replicas=3)
    kafka.produce("orders", [b"1"])
    leader = kafka.kill(leader_of=("orders", 0))
    kafka.wait_until(lambda: kafka.leader_of("orders") not in (leader, -1))
    kafka.produce("orders", [b"2"])
    kafka.start()
    frozen = kafka.pause(leader_of=("orders", 0), session_ends=True)
    kafka.wait_until(lambda: kafka.leader_of("orders") not in (frozen, -1))
    kafka.resume()
    assert kafka.values("orders") == [b"1", b"2"]


def test_the_coordinator_is_killed_and_the_group_goes_on(kafka_cluster: Kafka) -> None:
    kafka = kafka_cluster
    kafka.create_topic("orders", replicas=3)
    kafka.produce("orders", [b"1"])
    with reading(kafka, "billing", "one"):
        kafka.wait_for_lag("billing")
        kafka.kill(coordinator_of="billing")
        kafka.produce("orders", [b"2"])
        kafka.wait_for_lag("billing")
        kafka.wait_until(lambda: is_stable(kafka, "billing", 1))
        assert kafka.group("billing").generation == 1


def test_with_several_brokers_one_must_be_named(kafka_cluster: Kafka) -> None:
    with pytest.raises(ValueError, match="say which one"):
        kafka_cluster.kill()
    with pytest.raises(ValueError, match="there is no broker 7"):
        kafka_cluster.kill(7)
    with pytest.raises(ValueError, match="name one broker"):
        kafka_cluster.kill(1, controller=True)


def test_a_misspelled_fault_is_refused(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="there is no API 'OffsetComit'"):
        kafka.fail("OffsetComit", "REBALANCE_IN_PROGRESS")
    with pytest.raises(ValueError, match="no error 'REBALANCING'"):
        kafka.fail("OffsetCommit", "REBALANCING")


@pytest.mark.kafka(process=True)
def test_a_process_is_killed_and_paused_for_real(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", [b"1"])
    kafka.kill()
    kafka.start()
    kafka.pause()
    kafka.resume()
    assert kafka.values("orders") == [b"1"]
    with pytest.raises(RuntimeError, match="for brokers in this process"):
        kafka.clock.advance(1)
