"""Quotas: the same changes and questions to Apache Kafka and to us, answer compared with answer."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas.wire.messages import alter_client_quotas as altering
from barnabas.wire.messages import describe_client_quotas as describing
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.process import BrokerProcess
from tests.support.caller import Caller, creatable
from tests.support.kafka import KafkaBroker
from tests.waiting import WAIT_S

Broker = BrokerProcess | KafkaBroker

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
TIME, MUTATION = "request_percentage", "controller_mutation_rate"
CONNECTION = "connection_creation_rate"

Pair = tuple[str, str | None]
Change = tuple[list[Pair], list[tuple[str, float | None]]]

# One request each.
CHANGES: list[list[Change]] = [
    [([("user", "alice")], [(PRODUCE, 1024.0), (FETCH, 2048.0)])],
    [([("user", None)], [(TIME, 12.5)])],
    [([("user", "alice"), ("client-id", "app")], [(MUTATION, 0.5)])],
    [([("client-id", "app"), ("user", "bob")], [(MUTATION, 1.5)])],
    [([("user", "alice"), ("client-id", None)], [(PRODUCE, 1e12)])],
    [([("user", None), ("client-id", None)], [(PRODUCE, 5.0)])],
    [([("client-id", "a b/c*%=<default>")], [(FETCH, 10.0)])],
    [([("client-id", None)], [(FETCH, 10.0)])],
    [([("ip", "127.0.0.9")], [(CONNECTION, 1000.0)])],
    [([("ip", None)], [(CONNECTION, 2147483647.0)])],
    # Several at once, one of them wrong
    [
        ([("user", "carol")], [(PRODUCE, 1.0)]),
        ([("user", "dave")], [(PRODUCE, 0.0)]),
        ([("user", "erin")], [(PRODUCE, 7.0), (FETCH, -7.0)]),
    ],
    # Removed
    [([("user", "alice")], [(FETCH, None)])],
    [([("user", "carol")], [(PRODUCE, None), (FETCH, None)])],
    [([("user", "nobody")], [(PRODUCE, None)])],
    [([("user", "nobody")], [("no_such_key", None)])],
    [([("user", "nobody")], [])],
    # Refused
    [([], [(PRODUCE, 1.0)])],
    [([("user", "")], [(PRODUCE, 1.0)])],
    [([("group", "g")], [(PRODUCE, 1.0)])],
    [([("ip", "127.0.0.1"), ("user", "x")], [(CONNECTION, 1.0)])],
    [([("ip", "not an address")], [(CONNECTION, 1.0)])],
    [([("ip", "127.0.0.1")], [(PRODUCE, 1.0)])],
    [([("user", "x")], [(CONNECTION, 1.0)])],
    [([("user", "x")], [("SCRAM-SHA-256", 1.0)])],
    [([("user", "x")], [(PRODUCE, 1.5)])],
    [([("user", "x")], [(PRODUCE, 1e19)])],
    [([("user", "x")], [(TIME, -0.1)])],
    [([("ip", "127.0.0.1")], [(CONNECTION, 2147483648.0)])],
    [([("user", "x")], [(PRODUCE, 1.0), (PRODUCE, 2.0)])],
]
FILTERS: list[tuple[list[tuple[str, int, str | None]], bool]] = [
    ([], False),
    ([], True),
    ([("user", 2, None)], False),
    ([("user", 2, None)], True),
    ([("user", 0, "alice")], False),
    ([("user", 0, "alice")], True),
    ([("user", 1, None)], False),
    ([("user", 0, "nobody")], False),
    ([("user", 0, "alice"), ("client-id", 1, None)], True),
    ([("user", 2, None), ("client-id", 2, None)], False),
    ([("client-id", 2, None)], False),
    ([("client-id", 2, None)], True),
    ([("client-id", 0, "a b/c*%=<default>")], True),
    ([("ip", 2, None)], False),
    ([("ip", 1, None)], True),
    ([("ip", 0, "127.0.0.9")], True),
    # Refused
    ([("", 0, "x")], False),
    ([("topic", 0, "x")], False),
    ([("user", 0, None)], False),
    ([("user", 1, "x")], False),
    ([("user", 2, "x")], False),
    ([("user", 3, None)], False),
    ([("user", 0, "x"), ("user", 0, "y")], False),
    ([("user", 0, "x"), ("ip", 0, "127.0.0.1")], False),
]


def in_order(answer: Any) -> Any:
    """Kafka answers in the order of a hash table."""
    for entry in answer["entries"] or ():
        entry["entity"].sort(key=str)
        if "values" in entry:
            entry["values"].sort(key=str)
    if answer["entries"]:
        answer["entries"].sort(key=str)
    return answer


def alter(caller: Caller, changes: list[Change], version: int, *, validate_only: bool) -> Any:
    request = altering.AlterClientQuotasRequest(
        entries=[
            altering.EntryData(
                entity=[
                    altering.EntityData(entity_type=type_, entity_name=name)
                    for type_, name in entity
                ],
                ops=[
                    altering.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in limits
                ],
            )
            for entity, limits in changes
        ],
        validate_only=validate_only,
    )
    return in_order(caller.answer(request, version))


def describe(
    caller: Caller, components: list[tuple[str, int, str | None]], strict: bool, version: int
) -> Any:
    request = describing.DescribeClientQuotasRequest(
        components=[
            describing.ComponentData(entity_type=type_, match_type=match_type, match=match)
            for type_, match_type, match in components
        ],
        strict=strict,
    )
    return in_order(caller.answer(request, version))


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_altered_and_described_alike(us: Caller, them: Caller, version: int) -> None:
    differences: list[Any] = []
    for validate_only in (True, False):
        for changes in CHANGES:
            ours, theirs = (
                alter(each, changes, version, validate_only=validate_only) for each in (us, them)
            )
            if ours != theirs:
                differences.append((changes, ours, theirs))
    for components, strict in FILTERS:
        ours, theirs = (describe(each, components, strict, version) for each in (us, them))
        if ours != theirs:
            differences.append((components, ours, theirs))
    for caller in (us, them):  # the limits must not disturb the other tests
        for changes in CHANGES:
            gone: list[Change] = [
                (entity, [(key, None) for key, _ in limits]) for entity, limits in changes
            ]
            alter(caller, gone, version, validate_only=False)
    assert not differences, "\n".join(map(str, differences))
    assert describe(us, [], False, version)["entries"] == []


@contextmanager
def limit(broker: Broker, client_id: str, key: str, value: float) -> Iterator[None]:
    """Until the end of the block."""
    caller = Caller(broker)
    entity: list[Pair] = [("client-id", client_id)]
    alter(caller, [(entity, [(key, value)])], 1, validate_only=False)
    deadline = time.monotonic() + WAIT_S
    while not describe(caller, [("client-id", 0, client_id)], True, 1)["entries"]:
        assert time.monotonic() < deadline
    yield
    alter(caller, [(entity, [(key, None)])], 1, validate_only=False)
    caller.close()


def told_to_wait(broker: Broker, topic: str) -> int:
    """By the first answer that says so; before it, Kafka's broker did not know of the quota. The
    client has the name of the topic."""
    records = memoryview(encode_batch([Record(0, 1, b"key", b"v" * 50_000, ())]))
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        transactional_id=None, acks=1, timeout_ms=60_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )  # fmt: skip
    deadline = time.monotonic() + WAIT_S
    while True:
        assert time.monotonic() < deadline, "never told to wait"
        caller = Caller(broker, topic)
        response: Any = caller.ask(request, 12)
        caller.close()
        if response.throttle_time_ms:
            return int(response.throttle_time_ms)


def test_a_producer_must_wait_equally_long(
    broker: BrokerProcess, kafka: KafkaBroker, us: Caller, them: Caller, topic: str
) -> None:
    waits = []
    for caller, each in ((us, broker), (them, kafka)):
        caller.create(topic)
        with limit(each, topic, PRODUCE, 1000.0):
            waits.append(told_to_wait(each, topic))
    ours, theirs = waits
    assert ours == theirs


def created(broker: Broker, topic: str, version: int) -> dict[str, int]:
    """The code for each of three topics, and whether the client must wait."""
    names = [f"{topic}-{version}-{number}" for number in range(3)]
    caller = Caller(broker, topic)
    request = CreateTopicsRequest(topics=[creatable(name, 6) for name in names], timeout_ms=30_000)
    response: Any = caller.ask(request, version)
    caller.close()
    codes = {each.name: int(each.error_code) for each in response.topics}
    return {**codes, "waits": int(response.throttle_time_ms > 0)}


@pytest.mark.parametrize("version", [5, 6, 7])
def test_partitions_over_the_quota_are_refused_alike(
    broker: BrokerProcess, kafka: KafkaBroker, topic: str, version: int
) -> None:
    answers = []
    for each in (broker, kafka):
        with limit(each, topic, MUTATION, 1.0):
            answers.append(created(each, topic, version))
    assert answers[0] == answers[1]
    assert answers[0]["waits"]
