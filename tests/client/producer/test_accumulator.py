"""The path of a record to its batch, plain and compiled."""

import random
import sys
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.producer import accumulator as imported
from barnabas.client.producer.intake import Intake
from barnabas.model.errors import Code, InvalidRequest
from tests.plain import flavours, from_source


def _plain() -> Any:
    batches = from_source("barnabas.client.producer.batches")
    with patch.dict(sys.modules, {"barnabas.client.producer.batches": batches}):
        return from_source("barnabas.client.producer.accumulator")


both = pytest.mark.parametrize("module", flavours(_plain(), imported))


def new(module: Any, **options: Any) -> Any:
    settings: dict[str, Any] = {
        "batch_size_max": 1_000,
        "buffer_size_max": 1 << 20,
        "record_size_max": 1 << 20,
        "clock": lambda: 1.0,
        "wall": lambda: 1_700_000_000.25,
        "chance": random.Random(1).random,
        "wake": lambda: None,
    }
    return module.Accumulator(**{**settings, **options})


def add(accumulator: Any, value: Any = b"v", **more: Any) -> Any:
    given = {"key": None, "headers": (), "partition": None, "timestamp": None, "callback": None}
    given.update(more)
    return accumulator.add("t", value, *given.values())


def known(module: Any, partitions: int = 3, **options: Any) -> Any:
    accumulator = new(module, **options)
    accumulator.topic_known("t", dict.fromkeys(range(partitions), 1))
    return accumulator


@both
def test_a_record_is_counted_until_its_batch_is_finished(module: Any) -> None:
    accumulator = known(module)
    delivery = add(accumulator, bytes(100))
    assert accumulator.used > 100
    assert not delivery.done()
    (queue,) = accumulator.active
    (batch,) = queue.waiting
    batch.succeed(41, -1)
    batch.release()
    assert delivery.done()
    assert delivery.metadata() == ("t", queue.partition, 41, 1_700_000_000_250)


@both
def test_the_batch_says_the_time_where_the_broker_set_it(module: Any) -> None:
    accumulator = known(module)
    delivery = add(accumulator, timestamp=5)
    next(iter(accumulator.active)).waiting[0].succeed(0, 99)
    assert delivery.metadata().timestamp == 99
    assert delivery.timestamp == 5


@both
def test_a_full_buffer_refuses(module: Any) -> None:
    accumulator = known(module, buffer_size_max=500)
    while accumulator.used < 500:
        add(accumulator, bytes(50))
    with pytest.raises(module.BufferFull, match=r"buffer\.memory is 500"):
        accumulator.check_room()


@both
def test_a_record_that_cannot_be_encoded_leaves_nothing_behind(module: Any) -> None:
    accumulator = known(module)
    for wrong in ("text", [1], 7):
        with pytest.raises(TypeError):
            add(accumulator, wrong)
    with pytest.raises(InvalidRequest, match=r"max\.request\.size"):
        add(accumulator, bytes(2 << 20))
    assert accumulator.used == 0
    assert not accumulator.active


@both
def test_a_record_larger_than_a_batch_gets_its_own(module: Any) -> None:
    accumulator = known(module, 1)
    for size in (10, 5_000, 10):
        add(accumulator, bytes(size))
    (queue,) = accumulator.active
    assert [batch.count for batch in queue.waiting] == [1, 1, 1]
    assert queue.open is queue.waiting[-1]


@both
def test_records_without_keys_stay_for_a_while_and_go_where_a_leader_is(module: Any) -> None:
    accumulator = new(module, batch_size_max=1 << 20)
    accumulator.topic_known("t", {0: 1, 1: -1, 2: 1})
    for _ in range(2_000):
        add(accumulator, bytes(100))
    counts = {queue.partition: queue.waiting[0].count for queue in accumulator.active}
    assert sorted(counts) == [0, 2]
    assert all(count >= module.STICKY_SIZE // 200 for count in counts.values())


@both
def test_a_topic_that_came_back_with_fewer_partitions_uses_those(module: Any) -> None:
    accumulator = known(module, 3)
    for _ in range(50):
        add(accumulator, bytes(1_000))
    accumulator.topic_known("t", {0: 1})
    before = {queue: len(queue.waiting) for queue in accumulator.queues()}
    for key in (None, b"a", b"b", b"c"):
        add(accumulator, bytes(1_000), key=key)
    after = {queue: len(queue.waiting) for queue in accumulator.queues()}
    assert [after[queue] - before[queue] for queue in after] == [4, 0, 0]


@both
def test_ones_own_partitioner_is_asked_and_checked(module: Any) -> None:
    accumulator = known(module, partitioner=lambda topic, key, value, count: int(value))
    add(accumulator, b"2")
    assert [queue.partition for queue in accumulator.active] == [2]
    with pytest.raises(InvalidRequest, match="chose partition 3 of topic 't', which has 3"):
        add(accumulator, b"3")


@both
def test_records_wait_for_their_topic_and_keep_their_order(module: Any) -> None:
    accumulator = new(module)
    told: list[Any] = []
    deliveries = [add(accumulator, b"%d" % n, callback=lambda *what: told.append(what))
                  for n in range(5)]  # fmt: skip
    assert list(accumulator.unknown) == ["t"]
    assert accumulator.used > 0
    accumulator.topic_known("t", {0: 1})
    (queue,) = accumulator.active
    (batch,) = queue.waiting
    assert batch.count == 5
    batch.succeed(10, -1)
    batch.announce()
    assert [delivery.metadata().offset for delivery in deliveries] == [10, 11, 12, 13, 14]
    assert [metadata.offset for metadata, _ in told] == [10, 11, 12, 13, 14]


@both
def test_a_callback_that_raises_keeps_nothing_from_the_others(
    module: Any, caplog: pytest.LogCaptureFixture
) -> None:
    accumulator = known(module, 1)
    told: list[Any] = []
    add(accumulator, callback=lambda *what: 1 / 0)
    add(accumulator, callback=lambda *what: told.append(what))
    batch = next(iter(accumulator.active)).waiting[0]
    batch.succeed(0, -1)
    batch.announce()
    assert [metadata.offset for metadata, _ in told] == [1]
    assert "ZeroDivisionError" in caplog.text


def test_what_cannot_be_sent_is_said_at_once_and_in_words() -> None:
    intake = Intake(known(imported), None)
    with pytest.raises(TypeError, match="a value is bytes, text or None, not int"):
        intake.send_nowait("t", 5)
    with pytest.raises(TypeError, match="key_serializer"):
        intake.send_nowait("t", b"", key=5.0)
    for headers in ([("a",)], 5, [1], {"a": 5}, {b"a": b""}):
        with pytest.raises(TypeError, match="header"):
            intake.send_nowait("t", b"", headers=headers)
    with pytest.raises(InvalidRequest, match="milliseconds since 1970"):
        intake.send_nowait("t", b"", timestamp=2**63)
    with pytest.raises(InvalidRequest, match="no partition -1"):
        intake.send_nowait("t", b"", partition=-1)
    assert intake._accumulator.used == 0
    intake.send_nowait("t", memoryview(b"v"), key=bytearray(b"k"), headers={"a": "text"})
    assert len(intake._accumulator.active) == 1


@both
def test_records_of_a_topic_that_is_not_there_fail_together(module: Any) -> None:
    accumulator = new(module)
    deliveries = [add(accumulator) for _ in range(3)]
    accumulator.topic_failed("t", InvalidRequest(Code.UNKNOWN_TOPIC_OR_PARTITION, "no t"))
    for delivery in deliveries[:2]:
        with pytest.raises(InvalidRequest, match="no t"):
            delivery.metadata()
    count, first = accumulator.take_failed()
    assert (count, first.code) == (1, Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert accumulator.used == 0


@both
def test_a_partition_that_is_not_there_yet_is_waited_for(module: Any) -> None:
    accumulator = known(module, 1)
    here = add(accumulator, partition=1)
    nowhere = add(accumulator, partition=7)
    assert accumulator.refreshing
    accumulator.topic_known("t", {0: 1, 1: 1})
    assert not here.done()
    with pytest.raises(InvalidRequest, match="no partition 7: it has 2"):
        nowhere.metadata()


@both
@given(key=st.binary(max_size=40))
def test_both_flavours_hash_keys_alike(module: Any, key: bytes) -> None:
    assert module.murmur2(key) == imported.murmur2(key)
