"""Produce: what is appended, what is refused, and how it is said."""

from typing import Any
from uuid import uuid4

import pytest

from barnabas.log.batch_validation import RECORD_ERRORS_MAX
from barnabas.model.errors import Code, Retriable
from barnabas.model.ids import BrokerId
from barnabas.wire.compression import Codec
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.broker.running import Running

TIME = 1_700_000_000_000


def produce(
    records: bytes | bytearray | None,
    *,
    topic: str = "t",
    topic_id: Any = None,
    partition: int = 0,
    acks: int = -1,
    **options: Any,
) -> ProduceRequest:
    named = {"topic_id": topic_id} if topic_id else {"name": topic}
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(partition_data=[data], **named)],
        **options,
    )


def batch(count: int = 1, **options: Any) -> bytearray:
    return encode_batch([Record(n, TIME, b"k", b"v", ()) for n in range(count)], **options)


def only(response: ProduceResponse) -> PartitionProduceResponse:
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition


@pytest.mark.parametrize("version", range(3, 14))
async def test_batches_get_their_offsets_in_every_version(running: Running, version: int) -> None:
    created = await running.create("t")
    id_ = created.topic_id if version >= 13 else None
    for base in (0, 3):
        answer = only(await running.ask(produce(batch(3), topic_id=id_), ProduceResponse, version))
        assert (answer.error_code, answer.base_offset) == (0, base)


async def test_without_acks_there_is_no_answer(running: Running) -> None:
    await running.create("t")
    running.send(produce(batch(), acks=0), 9)
    answer = only(await running.ask(produce(batch(), acks=1), ProduceResponse, 9))
    assert answer.base_offset == 1


async def test_without_acks_a_refusal_closes_the_connection(running: Running) -> None:
    running.send(produce(batch(), topic="nobody", acks=0), 9)
    with pytest.raises(ConnectionError):
        await running.wire.take()
    assert "UNKNOWN_TOPIC_OR_PARTITION" in running.log.getvalue()


async def test_without_acks_one_bad_partition_does_not_cost_the_ones_behind_it(
    running: Running,
) -> None:
    await running.create("t", partitions=2)
    bad = PartitionProduceData(index=0, records=batch())
    good = [PartitionProduceData(index=index, records=batch()) for index in (0, 1)]
    topics = [
        TopicProduceData(name="nobody", partition_data=[bad]),
        TopicProduceData(name="t", partition_data=good),
    ]
    running.send(ProduceRequest(acks=0, timeout_ms=1, topic_data=topics), 9)
    with pytest.raises(ConnectionError):
        await running.wire.take()
    topic = running.broker.topics.existing("t")
    assert [topic.partition(index).log.end_offset for index in (0, 1)] == [1, 1]


async def test_a_request_with_many_refused_partitions_is_one_line_in_the_log(
    running: Running,
) -> None:
    await running.create("t")
    data = [PartitionProduceData(index=index, records=batch()) for index in range(7, 107)]
    topics = [TopicProduceData(name="t", partition_data=data)]
    await running.ask(ProduceRequest(acks=1, timeout_ms=1, topic_data=topics), ProduceResponse, 9)
    (line,) = [line for line in running.log.getvalue().splitlines() if "append refused" in line]
    for word in ("100", "UNKNOWN_TOPIC_OR_PARTITION", "7"):
        assert word in line


@pytest.mark.parametrize("acks", [-2, 2, 17])
async def test_other_acks_are_refused(running: Running, acks: int) -> None:
    await running.create("t")
    answer = only(await running.ask(produce(batch(), acks=acks), ProduceResponse, 9))
    assert answer.error_code == Code.INVALID_REQUIRED_ACKS


async def test_unknown_topics_and_partitions_are_said_so(running: Running) -> None:
    await running.create("t")
    answer = only(await running.ask(produce(batch(), topic="u"), ProduceResponse, 9))
    assert answer.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    answer = only(await running.ask(produce(batch(), partition=1), ProduceResponse, 9))
    assert answer.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    answer = only(await running.ask(produce(batch(), topic_id=uuid4()), ProduceResponse, 13))
    assert answer.error_code == Code.UNKNOWN_TOPIC_ID


async def test_too_few_replicas_in_sync_refuse_acks_all_and_no_other(running: Running) -> None:
    await running.create("t", configs={"min.insync.replicas": "2"})
    partition = running.broker.topics.existing("t").partition(0)
    partition.replicas = [BrokerId(1), BrokerId(2)]
    answer = only(await running.ask(produce(batch(), acks=-1), ProduceResponse, 9))
    assert answer.error_code == Code.NOT_ENOUGH_REPLICAS
    answer = only(await running.ask(produce(batch(), acks=1), ProduceResponse, 9))
    assert (answer.error_code, answer.base_offset) == (0, 0)


async def test_no_more_replicas_are_asked_for_than_there_are(running: Running) -> None:
    await running.create("t", configs={"min.insync.replicas": "2"})
    answer = only(await running.ask(produce(batch(), acks=-1), ProduceResponse, 9))
    assert (answer.error_code, answer.base_offset) == (0, 0)


async def test_a_refused_batch_says_why_in_words(running: Running) -> None:
    await running.create("t", configs={"max.message.bytes": "100"})
    answer = only(await running.ask(produce(batch(50)), ProduceResponse, 9))
    assert answer.error_code == Code.MESSAGE_TOO_LARGE
    assert answer.error_message is not None
    assert "100" in answer.error_message


async def test_a_damaged_batch_is_refused_and_nothing_is_written(running: Running) -> None:
    await running.create("t")
    damaged = batch(3)
    damaged[-1] ^= 1
    answer = only(await running.ask(produce(damaged), ProduceResponse, 9))
    assert (answer.error_code, answer.base_offset) == (Code.CORRUPT_MESSAGE, -1)
    assert running.broker.topics.existing("t").partition(0).log.end_offset == 0


@pytest.mark.parametrize("records", [None, b""])
async def test_a_request_without_records_is_refused(
    running: Running, records: bytes | None
) -> None:
    await running.create("t")
    answer = only(await running.ask(produce(records), ProduceResponse, 9))
    assert answer.error_code == Code.INVALID_RECORD


async def test_one_bad_partition_does_not_fail_the_others(running: Running) -> None:
    await running.create("t", partitions=2)
    data = [
        PartitionProduceData(index=0, records=b"\0" * 80),
        PartitionProduceData(index=1, records=batch()),
    ]
    request = ProduceRequest(
        acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    response = await running.ask(request, ProduceResponse, 9)
    bad, good = response.responses[0].partition_responses
    assert bad.error_code == Code.CORRUPT_MESSAGE
    assert (good.error_code, good.base_offset) == (0, 0)


async def test_a_repeated_idempotent_batch_gets_its_old_offset(running: Running) -> None:
    await running.create("t")
    for _ in range(2):
        request = produce(batch(2, producer_id=7, producer_epoch=0, base_sequence=0))
        answer = only(await running.ask(request, ProduceResponse, 9))
        assert (answer.error_code, answer.base_offset) == (0, 0)
    assert running.broker.topics.existing("t").partition(0).log.end_offset == 2


async def test_a_gap_in_the_sequence_of_an_idempotent_producer_is_refused(
    running: Running,
) -> None:
    await running.create("t")
    for sequence, code in ((0, 0), (2, Code.OUT_OF_ORDER_SEQUENCE_NUMBER), (1, 0)):
        request = produce(batch(producer_id=7, producer_epoch=0, base_sequence=sequence))
        assert only(await running.ask(request, ProduceResponse, 9)).error_code == code


async def test_records_are_stamped_when_the_topic_says_so(running: Running) -> None:
    await running.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    before = running.broker.clock.wall_ms()
    answer = only(await running.ask(produce(batch()), ProduceResponse, 9))
    assert answer.log_append_time_ms >= before


async def test_nobody_writes_to_the_brokers_own_topics(running: Running) -> None:
    await running.broker.catalog.create_topic("__consumer_offsets", 1, {})
    request = produce(batch(), topic="__consumer_offsets")
    answer = only(await running.ask(request, ProduceResponse, 9))
    assert answer.error_code == Code.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("version", [7, 8, 13])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
async def test_every_record_without_a_key_is_named(
    running: Running, version: int, codec: Codec
) -> None:
    created = await running.create("t", configs={"cleanup.policy": "compact"})
    keyless = list(range(5, 100, 10))
    records = [Record(n, TIME, None if n in keyless else b"k", b"v", ()) for n in range(100)]
    request = produce(
        encode_batch(records, codec=codec), topic_id=created.topic_id if version >= 13 else None
    )
    answer = only(await running.ask(request, ProduceResponse, version))
    assert (answer.error_code, answer.base_offset) == (Code.INVALID_RECORD, -1)
    named = {each.batch_index: each.batch_index_error_message for each in answer.record_errors}
    assert list(named) == (keyless if version >= 8 else [])
    if version >= 8:
        assert "no key" in (named[5] or "")
        assert "record 5 of the batch" in (answer.error_message or "")
        assert "9 other invalid records" in (answer.error_message or "")


async def test_every_record_whose_timestamp_is_out_of_range_is_named(running: Running) -> None:
    bounds = {f"message.timestamp.{side}.max.ms": "60000" for side in ("before", "after")}
    await running.create("t", configs=bounds)
    now = running.broker.clock.wall_ms()
    times = [now - 120_000, now, now + 120_000, now, now + 130_000]
    records = [Record(n, time, None, b"v", ()) for n, time in enumerate(times)]
    answer = only(await running.ask(produce(encode_batch(records)), ProduceResponse, 9))
    assert answer.error_code == Code.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == [0, 2, 4]
    assert str(now + 130_000) in (answer.record_errors[2].batch_index_error_message or "")
    assert running.broker.topics.existing("t").partition(0).log.end_offset == 0


async def test_the_named_records_of_one_batch_are_bounded(running: Running) -> None:
    """A small compressed batch may hold more of them than a reply should."""
    await running.create("t", configs={"cleanup.policy": "compact"})
    records = [Record(n, TIME, None, None, ()) for n in range(RECORD_ERRORS_MAX + 1)]
    request = produce(encode_batch(records, codec=Codec.ZSTD))
    answer = only(await running.ask(request, ProduceResponse, 9))
    assert len(answer.record_errors) == RECORD_ERRORS_MAX
    assert f"{RECORD_ERRORS_MAX - 1} or more other" in (answer.error_message or "")


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
@pytest.mark.parametrize("code", [Code.NOT_ENOUGH_REPLICAS, Code.KAFKA_STORAGE_ERROR])
async def test_batches_behind_a_refused_one_wait_for_it_and_are_not_out_of_order(
    running: Running, code: Code, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition can be written to again between two requests in flight. After
    OUT_OF_ORDER_SEQUENCE_NUMBER librdkafka would send everything again in a new epoch, also what
    was written."""
    await running.create("t")
    topic = running.broker.topics.get("t")
    assert topic is not None
    partition = topic.partitions[0]

    async def send(sequence: int) -> int:
        sent = batch(1, producer_id=4, producer_epoch=0, base_sequence=sequence)
        return only(await running.ask(produce(sent), ProduceResponse, 12)).error_code

    def refuse(*_: object, **__: object) -> None:
        raise Retriable(code, "for now")

    if known:
        assert not await send(9)
    with monkeypatch.context() as refusing:
        refusing.setattr(type(partition), "append", refuse)
        assert await send(10) == code
    assert await send(11) == Code.NOT_ENOUGH_REPLICAS
    assert [await send(sequence) for sequence in (10, 11, 12)] == [0, 0, 0]
    assert partition.refused is None
    assert await send(14) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_bytes_that_are_no_batch_are_refused_as_others_while_nobody_can_append(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A magic of before Kafka 0.11: the refusal does not depend on what the bytes are."""
    await running.create("t")
    topic = running.broker.topics.get("t")
    assert topic is not None

    def refuse(*_: object, **__: object) -> None:
        raise Retriable(Code.NOT_ENOUGH_REPLICAS, "for now")

    monkeypatch.setattr(type(topic.partitions[0]), "append", refuse)
    answer = only(await running.ask(produce(bytes(100)), ProduceResponse, 12))
    assert answer.error_code == Code.NOT_ENOUGH_REPLICAS
