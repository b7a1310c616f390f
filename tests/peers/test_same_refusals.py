"""Requests that Apache Kafka refuses or has nothing to do for: we answer them as it does."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.wire.compression import Codec
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.peers.caller import Caller
from tests.peers.kafka import KafkaBroker
from tests.process import BrokerProcess

Case = Callable[[Caller, str], Any]
CASES: dict[str, Case] = {}
FAR_MS = 120_000
BOUNDS: dict[str, Any] = dict.fromkeys(
    ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"), str(FAR_MS // 2)
)


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def without_words(value: Any) -> Any:
    """The words for each record are our own."""
    if isinstance(value, dict):
        return {k: without_words(v) for k, v in value.items() if k != "batch_index_error_message"}
    return [without_words(each) for each in value] if isinstance(value, list) else value


@case
def records_refused(caller: Caller, topic: str) -> Any:
    caller.create(f"{topic}-keys", cleanup_policy="compact")
    caller.create(f"{topic}-times", **BOUNDS)
    caller.create(f"{topic}-both", cleanup_policy="compact", **BOUNDS)
    now = time.time_ns() // 1_000_000
    answers = []
    for kind in ("keys", "times", "both"):
        records = [
            Record(
                n,
                now + (FAR_MS if n in (1, 3, 7) else -FAR_MS if n == 0 else 0) * (kind != "keys"),
                None if n in (2, 3, 9) else b"k",
                b"v",
            )
            for n in range(10)
        ]
        for version in (7, 8, 12):
            for codec in (Codec.NONE, Codec.GZIP):
                batch = memoryview(encode_batch(records, codec=codec))
                data = PartitionProduceData(index=0, records=batch)
                request = ProduceRequest(
                    acks=-1,
                    timeout_ms=5000,
                    topic_data=[TopicProduceData(name=f"{topic}-{kind}", partition_data=[data])],
                )
                answers.append(without_words(caller.answer(request, version)))
    return answers


@pytest.fixture
def us(broker: BrokerProcess) -> Iterator[Caller]:
    caller = Caller(broker)
    yield caller
    caller.close()


@pytest.fixture
def them(kafka: KafkaBroker) -> Iterator[Caller]:
    caller = Caller(kafka)
    yield caller
    caller.close()


@pytest.mark.parametrize("name", CASES)
def test_we_refuse_as_kafka_does(us: Caller, them: Caller, name: str, topic: str) -> None:
    topic = topic.replace("_", "-")
    assert CASES[name](us, topic) == CASES[name](them, topic)
