"""What an administrator sees of transactions, and how one is ended: both brokers."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer as OtherConsumer

import barnabas
import barnabas.sync
from barnabas.client.admin.transactions import STATE_TOPIC
from barnabas.client.transactions.report import WaitingReader
from barnabas.model.errors import Code, Fenced, InvalidRequest
from barnabas.model.ids import TopicPartition
from tests.client_e2e.conftest import Served
from tests.client_e2e.hanging import UNKNOWN_PRODUCER, leave_hanging, unverified
from tests.waiting import until


@contextmanager
def open_transaction(
    servers: str, name: str, at: TopicPartition
) -> Iterator[barnabas.sync.Producer]:
    """One record in it."""
    with barnabas.sync.Producer(bootstrap_servers=servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(at.topic, b"x", partition=at.partition)
        producer.flush()
        yield producer


def test_an_open_transaction_is_listed_and_described(served: Served, topic: str) -> None:
    servers, at = served.bootstrap_servers, TopicPartition(topic, 1)
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=2)
        with open_transaction(servers, topic, at) as producer:
            (listing,) = admin.list_transactions(pattern=f"{topic}.*")
            assert (listing.transactional_id, listing.state) == (topic, "Ongoing")
            assert listing in admin.list_transactions(states=["Ongoing"])
            assert admin.list_transactions(producer_ids=[listing.producer_id]) == [listing]
            assert listing not in admin.list_transactions(longer_than_ms=3_600_000)
            described = admin.describe_transaction(topic)
            assert described.state == "Ongoing"
            assert described.partitions == (at,)
            assert described.timeout_ms == 60_000
            assert described.started_ms is not None
            active = admin.describe_producers([at, TopicPartition(topic, 0)])
            assert active[TopicPartition(topic, 0)] == []
            (one,) = active[at]
            assert (one.producer_id, one.start_offset) == (listing.producer_id, 0)
            producer.commit_transaction()
        until(lambda: admin.describe_transaction(topic).state == "CompleteCommit")
        assert admin.describe_transaction(topic).partitions == ()


def test_the_producer_of_a_terminated_transaction_is_fenced(served: Served, topic: str) -> None:
    servers, at = served.bootstrap_servers, TopicPartition(topic, 0)
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic)
        with open_transaction(servers, topic, at) as producer:
            admin.force_terminate_transaction(topic)
            assert admin.describe_transaction(topic).partitions == ()
            (one,) = admin.describe_producers([at])[at]
            assert one.start_offset is None
            with pytest.raises(Fenced):
                producer.commit_transaction()


def test_a_hanging_transaction_is_aborted_in_its_partition(served: Served, topic: str) -> None:
    servers, at = served.bootstrap_servers, TopicPartition(topic, 0)
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin, unverified(servers):
        admin.create_topic(topic)
        leave_hanging(servers, at)
        (one,) = admin.describe_producers([at])[at]
        assert (one.producer_id, one.start_offset) == (UNKNOWN_PRODUCER, 0)
        assert admin.list_transactions(producer_ids=[UNKNOWN_PRODUCER]) == []
        admin.abort_transaction(at, one)
        assert admin.describe_producers([at])[at][0].start_offset is None
        stale = one._replace(producer_epoch=0)
        with pytest.raises(Fenced, match=f"{topic}-0, producer id {UNKNOWN_PRODUCER}"):
            admin.abort_transaction(at, stale)


async def test_unknown_names_are_errors_and_create_no_topic(served: Served, topic: str) -> None:
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        before = STATE_TOPIC in (await admin.topics()).topics
        assert await admin.describe_transactions([topic]) == {}
        with pytest.raises(InvalidRequest, match=topic) as raised:
            await admin.force_terminate_transaction(topic)
        assert raised.value.code is Code.TRANSACTIONAL_ID_NOT_FOUND
        with pytest.raises(InvalidRequest, match="'Nowhere'"):
            await admin.list_transactions(states=["Nowhere"])
        with pytest.raises(InvalidRequest, match=r"\('"):
            await admin.list_transactions(pattern="('")
        assert (STATE_TOPIC in (await admin.topics()).topics) == before


def test_a_consumer_that_waits_behind_a_transaction_is_reported_by_barnabas(
    served: Served, topic: str, group: str
) -> None:
    servers, at = served.bootstrap_servers, TopicPartition(topic, 0)
    reader = OtherConsumer(
        {
            "bootstrap.servers": servers,
            "client.id": "reader-1",
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
    )
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic)
        with open_transaction(servers, topic, at):
            reader.subscribe([topic])
            until(lambda: reader.poll(0.05) is None and reader.assignment())

            def waiting() -> tuple[WaitingReader, ...]:
                (held,) = admin.transactions_report([topic]).held
                return held.readers

            if admin.transaction_histories([topic]):  # else nobody tells
                until(waiting)
                assert waiting() == (WaitingReader("reader-1", "127.0.0.1", group),)
                (held,) = admin.group_report(group).behind_transactions
                assert held.at == at
                assert admin.group_report(group).reads_committed
            else:
                assert waiting() == ()
            reader.close()
