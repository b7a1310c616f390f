"""Transactions of both producers, as read by our consumer and by another client."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import TopicPartition as OtherPartition

import barnabas
import barnabas.sync
from barnabas.client.producer.coordinator_requests import CoordinatorRequests
from barnabas.model.errors import Abortable, Fenced, InvalidRequest, Retriable
from barnabas.model.ids import TopicPartition
from tests.client_e2e.conftest import OPTIONS, OwnBroker, Served
from tests.client_e2e.losing_proxy import LosingProxy
from tests.process import KEPT
from tests.support import kafka as kafka_peer
from tests.support.cache import ROOT
from tests.waiting import WAIT_S, until

END_TXN, TXN_OFFSET_COMMIT, ADD_PARTITIONS = 26, 28, 24
PARTITIONS = 2
KILLS = 3
RECORDS = 600


@pytest.fixture(params=[1, 2], ids=["protocol 1", "protocol 2"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(CoordinatorRequests, "protocol_max", request.param)
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def behind_proxy(
    kafka_lib: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LosingProxy]:
    """An Apache Kafka that advertises the proxy, and soon ends transactions that are too old."""
    assert kafka_lib.exists()
    proxy = LosingProxy()
    options = {
        **KEPT,
        **OPTIONS,
        "advertised.listeners": f"PLAINTEXT://{proxy.address}",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    directory = tmp_path_factory.mktemp("behind")
    properties, port = kafka_peer.prepare(directory, options)
    proxy.target = port
    broker = kafka_peer.start(properties, port, kafka_peer.SHORT_LIVED)
    try:
        yield proxy
    finally:
        broker.stop()
        proxy.close()


def created(servers: str, *topics: str, message_bytes_max: str = "1048588") -> None:
    configs = {"max.message.bytes": message_bytes_max}
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        for topic in topics:
            admin.create_topic(topic, partitions=PARTITIONS, configs=configs)


def producer_on(servers: str, name: str, **options: Any) -> barnabas.sync.Producer:
    return barnabas.sync.Producer(bootstrap_servers=servers, transactional_id=name, **options)


def partitions_of(topic: str) -> list[tuple[str, int]]:
    return [(topic, number) for number in range(PARTITIONS)]


def ours(servers: str, topic: str, **options: Any) -> list[bytes]:
    """All that our consumer sees, up to the end that it is told."""
    with barnabas.sync.PartitionConsumer(
        partitions_of(topic), bootstrap_servers=servers, auto_offset_reset="earliest", **options
    ) as consumer:
        consumer.stop_at(consumer.end_offsets())
        return sorted(message.value or b"" for message in consumer)


def theirs(servers: str, topic: str) -> list[bytes]:
    """All that another read_committed consumer sees."""
    consumer = OtherConsumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        consumer.assign([OtherPartition(*at, OFFSET_BEGINNING) for at in partitions_of(topic)])
        found: list[bytes] = []
        ended = 0
        while ended < PARTITIONS:
            message: Any = consumer.poll(WAIT_S)
            assert message is not None, f"{len(found)} records, then silence"
            if message.error() is not None:
                ended += 1
            else:
                found.append(message.value())
        return sorted(found)
    finally:
        consumer.close()


def both_see(servers: str, topic: str, values: list[bytes]) -> None:
    """A commit is answered before its markers are written: they come soon."""
    until(lambda: ours(servers, topic) == sorted(values), lambda: ours(servers, topic))
    assert theirs(servers, topic) == sorted(values)


# --- whole or not at all ---


async def test_a_transaction_is_seen_whole_or_not_at_all(
    served: Served, topic: str, protocol: int
) -> None:
    servers = served.bootstrap_servers
    created(servers, topic)
    async with barnabas.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        for number in range(6):
            try:
                async with producer.transaction():
                    for partition in range(PARTITIONS):
                        producer.send_nowait(topic, b"%d" % number, partition=partition)
                    if number % 3 == 2:
                        await producer.flush()  # so that there is something to be aborted
                        raise ZeroDivisionError
            except ZeroDivisionError:
                pass
    kept = [b"%d" % number for number in (0, 1, 3, 4) for _ in range(PARTITIONS)]
    both_see(servers, topic, kept)
    everything = [b"%d" % number for number in range(6) for _ in range(PARTITIONS)]
    assert ours(servers, topic, isolation_level="read_uncommitted") == sorted(everything)


def test_calls_that_block_do_the_same(served: Served, topic: str, protocol: int) -> None:
    servers = served.bootstrap_servers
    created(servers, topic)
    with producer_on(servers, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        assert producer.send(topic, b"1", partition=0).offset == 0
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"2", partition=0)
        delivery = producer.send_nowait(topic, b"3", partition=1)
        producer.abort_transaction()
        assert delivery.done()
        producer.begin_transaction()
        producer.commit_transaction()  # of nothing
        with producer.transaction():
            producer.send_nowait(topic, b"4", partition=1)
    both_see(servers, topic, [b"1", b"4"])


def test_a_transaction_of_many_batches_keeps_their_order(
    served: Served, topic: str, protocol: int
) -> None:
    servers = served.bootstrap_servers
    created(servers, topic)
    with producer_on(servers, topic, batch_size=500) as producer:
        for start in (0, 500):
            with producer.transaction():
                for number in range(start, start + 500):
                    producer.send_nowait(topic, b"%04d" % number, partition=0)
    both_see(servers, topic, [b"%04d" % number for number in range(1000)])
    with barnabas.sync.PartitionConsumer(
        [(topic, 0)], bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.stop_at(consumer.end_offsets())
        assert [message.value for message in consumer] == [b"%04d" % n for n in range(1000)]


# --- wrong use, errors, fencing ---


async def test_wrong_use_is_refused_with_what_to_do(served: Served, topic: str) -> None:
    servers = served.bootstrap_servers
    created(servers, topic)
    async with barnabas.Producer(bootstrap_servers=servers) as plain:
        with pytest.raises(InvalidRequest, match="give it a transactional_id"):
            await plain.begin_transaction()
    async with barnabas.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        with pytest.raises(InvalidRequest, match=r"init_transactions\(\) first"):
            await producer.begin_transaction()
        await producer.init_transactions()
        with pytest.raises(InvalidRequest, match=r"begin_transaction\(\) first"):
            await producer.send(topic, b"outside")
        await producer.begin_transaction()
        with pytest.raises(InvalidRequest, match="commit or abort it first"):
            await producer.begin_transaction()
        with pytest.raises(InvalidRequest, match=r"consumer\.group_metadata\(\)"):
            await producer.send_offsets_to_transaction({}, "group")  # type: ignore[arg-type]
        member = barnabas.GroupMetadata("group")
        with pytest.raises(InvalidRequest, match="not the offset of the next record"):
            await producer.send_offsets_to_transaction({(topic, 0): -1}, member)
        await producer.abort_transaction()
        with pytest.raises(InvalidRequest, match=r"begin_transaction\(\) first"):
            await producer.commit_transaction()
    with pytest.raises(InvalidRequest, match="is closed"):
        await producer.begin_transaction()
    with pytest.raises(InvalidRequest, match="needs acks=all"):
        barnabas.Producer(transactional_id="x", acks=1)


def test_a_timeout_that_the_broker_does_not_allow_is_refused_by_name(
    served: Served, topic: str
) -> None:
    servers = served.bootstrap_servers
    with producer_on(servers, topic, transaction_timeout_ms=10**9) as producer:
        for _ in range(2):
            with pytest.raises(InvalidRequest, match=r"transaction\.max\.timeout\.ms: lower it"):
                producer.init_transactions()


def test_a_second_producer_with_the_same_id_fences_the_first(
    served: Served, topic: str, protocol: int
) -> None:
    servers = served.bootstrap_servers
    created(servers, topic)
    with producer_on(servers, topic) as first, producer_on(servers, topic) as second:
        first.init_transactions()
        first.begin_transaction()
        first.send(topic, b"of the first", partition=0)
        second.init_transactions()  # aborts it
        with pytest.raises((Fenced, Abortable)) as ended:
            first.commit_transaction()
        if isinstance(ended.value, Abortable):  # protocol 2: perhaps it only took too long
            with pytest.raises(Fenced, match="another producer has started with this id"):
                first.abort_transaction()
        with pytest.raises(Fenced):
            first.send_nowait(topic, b"more")
        with second.transaction():
            second.send(topic, b"again", partition=0)
    both_see(servers, topic, [b"again"])


def test_after_a_record_that_failed_the_transaction_is_aborted_and_the_next_one_works(
    served: Served, topic: str, protocol: int
) -> None:
    servers = served.bootstrap_servers
    created(servers, topic, message_bytes_max="1000")
    with producer_on(servers, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"good", partition=0)
        producer.send_nowait(topic, b"x" * 5000, partition=1)
        with pytest.raises(Abortable, match=r"max\.message\.bytes.*abort_transaction\(\)"):
            producer.commit_transaction()
        with pytest.raises(Abortable):
            producer.send_nowait(topic, b"more")
        producer.abort_transaction()
        with pytest.raises(Abortable, match=r"max\.message\.bytes"), producer.transaction():
            producer.send_nowait(topic, b"x" * 5000, partition=1)
        with producer.transaction():
            producer.send_nowait(topic, b"next", partition=0)
    both_see(servers, topic, [b"next"])


def test_closing_within_a_transaction_aborts_it(served: Served, topic: str) -> None:
    servers = served.bootstrap_servers
    created(servers, topic)
    with producer_on(servers, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"never", partition=0)
    with barnabas.sync.PartitionConsumer(
        [(topic, 0)], bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        until(lambda: consumer.end_offsets()[TopicPartition(topic, 0)] == 2)  # record and marker
        assert consumer.getmany(timeout=0.2) == []
        assert consumer.position((topic, 0)) == 2


# --- answers that are lost, and time ---


def test_a_commit_whose_answer_is_lost_is_repeated_and_counts_once(
    behind_proxy: LosingProxy, topic: str, protocol: int
) -> None:
    servers = behind_proxy.address
    created(servers, topic)
    with producer_on(servers, topic) as producer:
        for number in range(4):
            behind_proxy.seen.clear()
            with producer.transaction():
                producer.send(topic, b"%d" % number, partition=number % 2)
                behind_proxy.lose[END_TXN] = number % 3
        assert (END_TXN, 4 if protocol == 1 else 5) in behind_proxy.seen
        assert ((ADD_PARTITIONS, 3) in behind_proxy.seen) is (protocol == 1)
    both_see(servers, topic, [b"%d" % number for number in range(4)])


async def test_a_commit_that_ran_out_of_time_is_called_again(
    behind_proxy: LosingProxy, topic: str, protocol: int
) -> None:
    servers = behind_proxy.address
    created(servers, topic)
    async with barnabas.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(topic, b"once", partition=0)
        behind_proxy.lose[END_TXN] = 1
        with pytest.raises(Retriable, match="not known whether the transaction is committed"):
            await producer.commit_transaction(timeout_s=0)
        with pytest.raises(InvalidRequest, match=r"commit_transaction\(\) again"):
            await producer.abort_transaction()
        await producer.commit_transaction()
        async with producer.transaction():
            await producer.send(topic, b"next", partition=0)
    both_see(servers, topic, [b"next", b"once"])


def test_lost_answers_to_everything_lose_and_double_nothing(
    behind_proxy: LosingProxy, topic: str, protocol: int
) -> None:
    servers = behind_proxy.address
    created(servers, topic)
    chance = random.Random(3)
    kept = []
    with producer_on(servers, topic, retry_backoff_ms=10) as producer:
        producer.init_transactions()
        for number in range(12):
            for key in (0, 22, ADD_PARTITIONS, END_TXN):
                behind_proxy.lose[key] = chance.randrange(2)
            value = b"%d" % number
            try:
                with producer.transaction():
                    producer.send_nowait(topic, value, partition=number % 2)
                    if number % 4 == 3:
                        raise ZeroDivisionError
                kept.append(value)
            except ZeroDivisionError:
                pass
        behind_proxy.lose.clear()
    both_see(servers, topic, kept)


def test_a_transaction_that_is_open_for_too_long_is_aborted_and_the_producer_goes_on(
    behind_proxy: LosingProxy, topic: str, protocol: int
) -> None:
    servers = behind_proxy.address
    created(servers, topic)
    at = TopicPartition(topic, 0)
    with (
        producer_on(servers, topic, transaction_timeout_ms=10_000) as producer,
        barnabas.sync.PartitionConsumer([at], bootstrap_servers=servers) as consumer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"too late", partition=0)
        until(lambda: consumer.end_offsets()[at] == 2)  # the coordinator's marker
        with pytest.raises(Abortable, match=r"longer than transaction\.timeout\.ms"):
            producer.send(topic, b"later still", partition=0)
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"in time", partition=0)
    both_see(servers, topic, [b"in time"])


# --- consumers ---


def at_end(consumer: Any, at: TopicPartition, end: int) -> bool:
    consumer.getmany(timeout=0.05)
    return bool(consumer.position(at) == end)


def test_lag_and_ends_are_those_of_committed_records(served: Served, topic: str) -> None:
    servers = served.bootstrap_servers
    created(servers, topic)
    at = TopicPartition(topic, 0)
    with producer_on(servers, topic) as producer:
        with producer.transaction():
            producer.send(topic, b"committed", partition=0)
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0)
        for level, end in (("read_committed", 2), ("read_uncommitted", 3)):
            with barnabas.sync.PartitionConsumer(
                [at],
                bootstrap_servers=servers,
                auto_offset_reset="earliest",
                isolation_level=level,
                fetch_max_wait_ms=50,
            ) as consumer:
                assert consumer.end_offsets() == {at: end}
                assert consumer.getone().value == b"committed"
                until(partial(at_end, consumer, at, end))
                assert consumer.lag() == {at: 0}
        producer.abort_transaction()


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    served: Served, topic: str, group: str, protocol: int, group_protocol: str
) -> None:
    servers = served.bootstrap_servers
    target = f"{topic}-copy"
    created(servers, topic, target)
    with barnabas.sync.Producer(bootstrap_servers=servers) as source:
        for number in range(40):
            source.send_nowait(topic, b"%02d" % number, partition=number % 2)
    rounds = 0
    copied = 0
    with (
        producer_on(servers, topic) as producer,
        barnabas.sync.Consumer(
            topic,
            bootstrap_servers=servers,
            group_id=group,
            group_protocol=group_protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        while copied < 40:
            rounds += 1
            messages = consumer.getmany(10)
            try:
                with producer.transaction():
                    for message in messages:
                        producer.send_nowait(target, message.value, partition=message.partition)
                    offsets = {(m.topic, m.partition): m.offset + 1 for m in messages}
                    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                    if rounds % 2:
                        raise ZeroDivisionError
                copied += len(messages)
            except ZeroDivisionError:
                consumer.seek_to_committed()
        committed = consumer.committed()
    assert sum(place.offset for place in committed.values()) == 40
    both_see(servers, target, [b"%02d" % number for number in range(40)])


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_a_member_that_was_replaced_cannot_commit_offsets(
    served: Served, topic: str, group: str, protocol: int, group_protocol: str
) -> None:
    servers = served.bootstrap_servers
    created(servers, topic)
    options: dict[str, Any] = {
        "bootstrap_servers": servers,
        "group_id": group,
        "group_protocol": group_protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    with barnabas.sync.Producer(bootstrap_servers=servers) as source:
        source.send(topic, b"x", partition=0)
    with producer_on(servers, topic) as producer:
        with barnabas.sync.Consumer(topic, **options) as consumer:
            consumer.getone()
            zombie = consumer.group_metadata()
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"y", partition=1)
        with pytest.raises(Abortable, match="another member"):
            producer.send_offsets_to_transaction({(topic, 0): 1}, zombie)
        producer.abort_transaction()
        with barnabas.sync.Consumer(topic, **options) as consumer:
            consumer.getone()
            with producer.transaction():
                producer.send_offsets_to_transaction({(topic, 0): 1}, consumer.group_metadata())
            assert consumer.committed((topic, 0))[TopicPartition(topic, 0)].offset == 1


def test_offsets_that_a_consumer_commits_by_itself_are_no_transactions(group: str) -> None:
    with (
        barnabas.sync.Consumer("t", group_id=group) as consumer,
        pytest.raises(InvalidRequest, match=r"enable\.auto\.commit=false"),
    ):
        consumer.group_metadata()


# --- kills ---


async def test_a_transaction_survives_a_kill_of_the_broker(
    own_broker: OwnBroker, topic: str, protocol: int
) -> None:
    """The coordinator loads its state again; batches and the commit are sent until it has."""
    servers = own_broker.bootstrap_servers
    created(servers, topic)
    async with barnabas.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        async with producer.transaction():
            await producer.send(topic, b"before", partition=0)
        async with producer.transaction():
            await producer.send(topic, b"first", partition=0)
            own_broker.kill()
            delivery = producer.send_nowait(topic, b"second", partition=1)
            await asyncio.to_thread(own_broker.start)
            await delivery
        async with producer.transaction():
            await producer.send(topic, b"after", partition=1)
    both_see(servers, topic, [b"before", b"first", b"second", b"after"])


@pytest.mark.parametrize("how", ["awaiting", "blocking"])
def test_each_record_is_copied_once_through_kills(
    served: Served, topic: str, tmp_path: Path, how: str, protocol: int
) -> None:
    servers = served.bootstrap_servers
    target = f"{topic}-copy"
    created(servers, topic, target)
    with barnabas.sync.Producer(bootstrap_servers=servers) as source:
        for number in range(RECORDS):
            source.send_nowait(topic, b"%04d" % number, partition=number % PARTITIONS)
    program = "tests.client_e2e.transaction_program"
    command = [sys.executable, "-m", program, servers, topic, target, topic, how, str(protocol)]
    with open(tmp_path / "said", "ab") as said:
        for kill in range(1, KILLS + 1):
            process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said)
            try:
                until(
                    lambda k=kill: len(ours(servers, target)) >= k * RECORDS // (KILLS + 1),  # type: ignore[misc]
                    lambda: (tmp_path / "said").read_text()[-2000:],
                )
            finally:
                process.kill()
                process.wait()
        process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said)
        try:
            both_see(servers, target, [b"%04d" % number for number in range(RECORDS)])
        finally:
            process.kill()
            process.wait()
    both_see(servers, target, [b"%04d" % number for number in range(RECORDS)])
