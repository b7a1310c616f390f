"""Wrong requests about transactions: each gets the code that Apache Kafka gives, and nothing else
changes. With BARNABAS_AGAINST the same is asked of Apache Kafka."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from struct import pack

import pytest

from barnabas.model.errors import Code
from barnabas.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.compat.conftest import Address
from tests.compat.raw_transactions import RawProducer, control_batch, write_marker
from tests.compat.test_transactions import await_seen
from tests.raw import RawClient
from tests.waiting import until

Producers = Callable[[str], RawProducer]
UNKNOWN = 987_654_321


@pytest.fixture
def made(broker: Address, topic: str) -> str:
    with RawClient(broker.host, broker.port) as client:
        assert client.create_topic(topic, 2) == 0
        until(lambda: not any(client.fetch(topic, 0, partition=p).error_code for p in range(2)))
        group = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])  # makes its topic
        until(lambda: not client.call(group, 4, FindCoordinatorResponse).coordinators[0].error_code)
    return topic


@pytest.fixture
def producers(broker: Address) -> Iterator[Producers]:
    with ExitStack() as stack:

        def make(id_: str) -> RawProducer:
            producer = RawProducer(broker, id_)
            stack.callback(producer.close)
            return producer

        yield make


@pytest.mark.parametrize("by", [-1, 1, 1000, -2000])
def test_a_wrong_epoch_is_fenced_and_the_right_one_goes_on(
    broker: Address, producers: Producers, made: str, by: int
) -> None:
    producer = producers(made)
    producer.init()
    producer.init()
    assert producer.add(made, 0) == {Code.NONE}
    assert producer.produce(made, b"right") is Code.NONE
    producer.epoch += by
    assert producer.add(made, 1) == {Code.PRODUCER_FENCED}
    assert producer.add_offsets("g") is Code.PRODUCER_FENCED
    assert producer.end(commit=False) is Code.PRODUCER_FENCED
    assert producer.end(commit=True) is Code.PRODUCER_FENCED
    assert producer.produce(made, b"wrong") in (
        Code.INVALID_PRODUCER_EPOCH,
        Code.INVALID_RECORD,
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
    producer.epoch -= by
    assert producer.end(commit=True) is Code.NONE
    await_seen(broker, made, [b"right"])


def test_an_unknown_producer_or_transactional_id_is_named(
    broker: Address, producers: Producers, made: str
) -> None:
    producer = producers(made)
    assert producer.state() == "TRANSACTIONAL_ID_NOT_FOUND"
    producer.producer_id, producer.epoch = UNKNOWN, 0
    for _ in range(2):
        assert producer.add(made, 0) == {Code.INVALID_PRODUCER_ID_MAPPING}
        assert producer.add_offsets("g") is Code.INVALID_PRODUCER_ID_MAPPING
        assert producer.end(commit=True) is Code.INVALID_PRODUCER_ID_MAPPING
        assert producer.produce(made, b"x") is Code.INVALID_PRODUCER_ID_MAPPING
        assert producer.init() is Code.NONE  # now there is the id, with another producer id
        producer.producer_id = UNKNOWN
    await_seen(broker, made, [])


def test_partitions_that_do_not_exist_do_not_join(producers: Producers, made: str) -> None:
    producer = producers(made)
    producer.init()
    for index in (2, -1, 2**31 - 1):
        assert producer.add(made, index) == {Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert producer.add(f"{made}-other", 0) == {Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert producer.add(made, 0, 7) == {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.OPERATION_NOT_ATTEMPTED,
    }
    assert producer.state() == "Empty"


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(
    producers: Producers, made: str, timeout_ms: int
) -> None:
    assert producers(made).init(timeout_ms=timeout_ms) is Code.INVALID_TRANSACTION_TIMEOUT


def test_a_transactional_id_of_a_megabyte_closes_the_connection(broker: Address) -> None:
    """The protocol has strings of up to 32,767 bytes; a longer one is no request at all."""
    header = pack(">hhih3sB", 22, 4, 1, 3, b"raw", 0)
    count = 1_048_576
    length = bytes(((count + 1) >> shift) & 0x7F | 0x80 for shift in (0, 7)) + bytes([64])
    body = length + b"x" * count + pack(">iqhB", 60_000, -1, -1, 0)
    with RawClient(broker.host, broker.port) as client:
        client.send_body(header + body)
        client.wait_closed()
    with RawClient(broker.host, broker.port) as client:
        client.metadata()


def test_the_longest_transactional_id_works(
    broker: Address, producers: Producers, made: str
) -> None:
    producer = producers(made.ljust(32_767, "x"))
    assert producer.init() is Code.NONE
    assert producer.add(made, 0) == {Code.NONE}
    assert producer.produce(made, b"long") is Code.NONE
    assert producer.end(commit=True) is Code.NONE
    await_seen(broker, made, [b"long"])


def test_a_client_cannot_produce_markers(broker: Address, producers: Producers, made: str) -> None:
    producer, other = producers(made), producers(f"{made}-other")
    for each in (producer, other):
        each.init()
        assert each.add(made, 0) == {Code.NONE}
        assert each.produce(made, each.id.encode()) is Code.NONE
    marker = control_batch(producer.producer_id, producer.epoch, commit=True)
    assert other.produce_bytes(made, marker) is Code.INVALID_RECORD
    assert producer.produce_bytes(made, marker) is Code.INVALID_RECORD
    assert producer.state() == "Ongoing"
    assert producer.end(commit=False) is Code.NONE
    assert other.end(commit=True) is Code.NONE
    await_seen(broker, made, [other.id.encode()])


def test_markers_of_an_administrator_end_nothing_but_what_they_name(
    broker: Address, producers: Producers, made: str
) -> None:
    producer = producers(made)
    producer.init()
    producer.init()
    assert producer.add(made, 0) == {Code.NONE}
    assert producer.produce(made, b"x") is Code.NONE
    with RawClient(broker.host, broker.port) as client:
        assert write_marker(client, made, 0, UNKNOWN, 0) is Code.NONE
        assert write_marker(client, made, 7, UNKNOWN, 0) is Code.UNKNOWN_TOPIC_OR_PARTITION
        assert write_marker(client, "nowhere", 0, UNKNOWN, 0) is Code.UNKNOWN_TOPIC_OR_PARTITION
        stale = producer.epoch - 1
        assert write_marker(client, made, 0, producer.producer_id, stale) is (
            Code.INVALID_PRODUCER_EPOCH
        )
    assert producer.end(commit=True) is Code.NONE
    await_seen(broker, made, [b"x"])


def test_of_two_producers_with_one_id_the_newer_goes_on(
    broker: Address, producers: Producers, made: str
) -> None:
    """Their requests interleaved; nothing of the older one is ever committed."""
    older, newer = producers(made), producers(made)
    older.init()
    assert older.add(made, 0) == {Code.NONE}
    assert older.produce(made, b"older 1") is Code.NONE
    assert newer.init() is Code.NONE  # it waits for the abort of the other's transaction
    assert older.produce(made, b"older 2") is Code.INVALID_PRODUCER_EPOCH
    assert newer.add(made, 0) == {Code.NONE}
    assert older.add(made, 0) == {Code.PRODUCER_FENCED}
    assert newer.produce(made, b"newer 1") is Code.NONE
    assert older.produce(made, b"older 3") is Code.INVALID_PRODUCER_EPOCH
    assert older.end(commit=False) is Code.PRODUCER_FENCED
    assert newer.produce(made, b"newer 2") is Code.NONE
    assert older.end(commit=True) is Code.PRODUCER_FENCED
    assert older.add_offsets("g") is Code.PRODUCER_FENCED
    assert newer.end(commit=True) is Code.NONE
    until(lambda: newer.state() == "CompleteCommit", newer.state)
    await_seen(broker, made, [b"newer 1", b"newer 2"])
