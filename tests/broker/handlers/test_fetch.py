"""Fetch: whole batches, long polls, sessions, limits."""

import asyncio
from errno import EIO
from typing import Any
from uuid import UUID, uuid4

import pytest

from barnabas.broker.net import fetch_sessions
from barnabas.log.log import Log
from barnabas.model.errors import Code
from barnabas.model.ports import FileSlice
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from barnabas.wire.records import decode_batch, iter_batches
from tests.broker.running import Running

TIME = 1_700_000_000_000


def fetch(
    *offsets: int,
    topic: str = "t",
    topic_id: UUID | None = None,
    partition_bytes: int = 1 << 20,
    epoch: int = -1,
    **options: Any,
) -> FetchRequest:
    """Partition n from the n-th offset; -1 leaves it out."""
    named = {"topic_id": topic_id} if topic_id else {"topic": topic}
    partitions = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_bytes,
            current_leader_epoch=epoch,
        )
        for index, offset in enumerate(offsets)
        if offset >= 0
    ]
    asked = {"max_wait_ms": 0, "min_bytes": 1, **options}
    topics = [FetchTopic(partitions=partitions, **named)] if partitions else []
    return FetchRequest(topics=topics, **asked)


def only(response: FetchResponse) -> PartitionData:
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def offsets_in(partition: PartitionData) -> list[int]:
    assert partition.records is not None
    assert not isinstance(partition.records, FileSlice)
    return [
        record.offset
        for _, batch in iter_batches(partition.records)
        for record in decode_batch(batch)
    ]


def partitions_in(response: FetchResponse) -> list[int]:
    return [p.partition_index for t in response.responses for p in t.partitions]


@pytest.mark.parametrize("version", range(4, 19))
async def test_records_come_back_in_every_version(running: Running, version: int) -> None:
    created = await running.create("t")
    await running.produce("t", TIME, TIME + 1)
    id_ = created.topic_id if version >= 13 else None
    found = only(await running.ask(fetch(0, topic_id=id_), FetchResponse, version))
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 2, 2)
    assert offsets_in(found) == [0, 1]


async def test_an_offset_inside_a_batch_brings_the_whole_batch(running: Running) -> None:
    await running.create("t")
    await running.produce("t", TIME, TIME, TIME)
    found = only(await running.ask(fetch(1), FetchResponse, 12))
    assert offsets_in(found) == [0, 1, 2]


async def test_the_first_batch_comes_however_large_and_the_next_ones_only_if_they_fit(
    running: Running,
) -> None:
    await running.create("t", partitions=2)
    for partition in (0, 1):
        await running.produce("t", TIME, TIME, partition=partition)
        await running.produce("t", TIME, partition=partition)
    response = await running.ask(fetch(0, 0, max_bytes=1), FetchResponse, 12)
    first, second = response.responses[0].partitions
    assert offsets_in(first) == [0, 1]
    assert second.records == b""
    response = await running.ask(fetch(0, 0, partition_bytes=1), FetchResponse, 12)
    first, second = response.responses[0].partitions
    assert offsets_in(first) == [0, 1]
    assert second.records == b""


async def test_a_partition_without_news_has_empty_records_not_null(running: Running) -> None:
    await running.create("t")
    assert only(await running.ask(fetch(0), FetchResponse, 12)).records == b""
    assert only(await running.ask(fetch(7), FetchResponse, 12)).records == b""


@pytest.mark.parametrize("offset", [3, 2**62])
async def test_an_offset_past_the_end_is_out_of_range(running: Running, offset: int) -> None:
    await running.create("t")
    await running.produce("t", TIME, TIME)
    found = only(await running.ask(fetch(offset), FetchResponse, 12))
    assert found.error_code == Code.OFFSET_OUT_OF_RANGE


async def test_unknown_topics_and_partitions_are_said_so(running: Running) -> None:
    await running.create("t")
    found = only(await running.ask(fetch(0, topic="nobody"), FetchResponse, 12))
    assert found.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    found = only(await running.ask(fetch(-1, 0), FetchResponse, 12))
    assert found.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    found = only(await running.ask(fetch(0, topic_id=uuid4()), FetchResponse, 13))
    assert found.error_code == Code.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, 0), (-1, 0), (1, Code.UNKNOWN_LEADER_EPOCH), (5, Code.UNKNOWN_LEADER_EPOCH)],
)
async def test_a_reader_that_knows_another_leader_epoch_gets_an_error(
    running: Running, epoch: int, code: int
) -> None:
    await running.create("t")
    found = only(await running.ask(fetch(0, epoch=epoch), FetchResponse, 12))
    assert found.error_code == code


async def test_a_waiting_fetch_is_answered_by_the_next_append(running: Running) -> None:
    await running.create("t")
    request = fetch(0, max_wait_ms=60_000)
    reader = running.connect()
    running.send(request, 12, reader)
    await running.produce("t", TIME)
    found = only(await running.receive(request, FetchResponse, 12, reader))
    assert offsets_in(found) == [0]
    assert not running.broker.topics.existing("t").partition(0).waiters


async def test_a_waiting_fetch_waits_for_as_many_bytes_as_it_asked_for(running: Running) -> None:
    await running.create("t")
    request = fetch(0, max_wait_ms=60_000, min_bytes=100)
    reader = running.connect()
    running.send(request, 12, reader)
    await running.produce("t", TIME)
    await running.produce("t", TIME)
    found = only(await running.receive(request, FetchResponse, 12, reader))
    assert offsets_in(found) == [0, 1]


async def test_a_fetch_that_waited_in_vain_is_answered_empty_in_time(running: Running) -> None:
    await running.create("t")
    found = only(await running.ask(fetch(0, max_wait_ms=20), FetchResponse, 12))
    assert (found.error_code, found.records) == (0, b"")


async def test_a_reader_that_leaves_is_not_waited_for(running: Running) -> None:
    await running.create("t")
    reader = running.connect()
    running.send(fetch(0, max_wait_ms=60_000), 12, reader)
    await asyncio.sleep(0)
    partition = running.broker.topics.existing("t").partition(0)
    assert len(partition.waiters) == 1
    (connection,) = [c for c in running.broker.connections if c.waiting]
    connection.close("")
    assert not partition.waiters


async def test_readers_of_a_deleted_topic_get_an_error_at_once(running: Running) -> None:
    await running.create("t")
    request = fetch(0, max_wait_ms=60_000)
    reader = running.connect()
    running.send(request, 12, reader)
    await running.ask(
        DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), DeleteTopicsResponse, 5
    )
    found = only(await running.receive(request, FetchResponse, 12, reader))
    assert found.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_disk_that_cannot_be_read_is_said_to_those_who_waited_too(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(EIO, "Input/output error")

    await running.create("t")
    request = fetch(0, max_wait_ms=60_000)
    reader = running.connect()
    running.send(request, 12, reader)
    await asyncio.sleep(0)
    monkeypatch.setattr(Log, "read", broken)
    await running.produce("t", TIME)
    found = only(await running.receive(request, FetchResponse, 12, reader))
    assert found.error_code == Code.KAFKA_STORAGE_ERROR
    found = only(await running.ask(request, FetchResponse, 12))
    assert found.error_code == Code.KAFKA_STORAGE_ERROR


async def test_only_a_reader_of_committed_records_gets_a_list_of_aborted_ones(
    running: Running,
) -> None:
    await running.create("t")
    assert only(await running.ask(fetch(0), FetchResponse, 12)).aborted_transactions is None
    committed = fetch(0, isolation_level=1)
    assert only(await running.ask(committed, FetchResponse, 12)).aborted_transactions == []


async def test_a_session_names_only_what_is_new(running: Running) -> None:
    await running.create("t", partitions=3)
    first = await running.ask(fetch(0, 0, 0, session_epoch=0), FetchResponse, 12)
    assert first.session_id > 0
    assert partitions_in(first) == [0, 1, 2]

    def again(epoch: int, *offsets: int, **options: Any) -> FetchRequest:
        return fetch(*offsets, session_id=first.session_id, session_epoch=epoch, **options)

    assert partitions_in(await running.ask(again(1), FetchResponse, 12)) == []
    await running.produce("t", TIME, partition=1)
    response = await running.ask(again(2), FetchResponse, 12)
    assert partitions_in(response) == [1]
    assert offsets_in(only(response)) == [0]
    assert partitions_in(await running.ask(again(3, -1, 1), FetchResponse, 12)) == []
    forget = [ForgottenTopic(topic="t", partitions=[0])]
    await running.produce("t", TIME, partition=0)
    response = await running.ask(again(4, forgotten_topics_data=forget), FetchResponse, 12)
    assert partitions_in(response) == []


async def test_a_partition_asked_for_twice_is_answered_once_in_a_session(
    running: Running,
) -> None:
    await running.create("t", partitions=2)
    request = fetch(0, 0, session_epoch=0)
    request.topics.extend(request.topics * 2)
    assert partitions_in(await running.ask(request, FetchResponse, 12)) == [0, 1]


async def test_a_fetch_that_repeats_partitions_does_not_wait(running: Running) -> None:
    await running.create("t")
    request = fetch(0, max_wait_ms=2**31 - 1)
    request.topics.extend(request.topics * 2)
    assert partitions_in(await running.ask(request, FetchResponse, 12)) == [0, 0, 0]


async def test_a_session_that_outgrows_the_room_for_all_ends(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 2)
    await running.create("t", partitions=3)
    refused = await running.ask(fetch(0, 0, 0, session_epoch=0), FetchResponse, 12)
    assert (refused.session_id, partitions_in(refused)) == (0, [0, 1, 2])
    first = await running.ask(fetch(0, 0, session_epoch=0), FetchResponse, 12)
    assert first.session_id > 0
    more = fetch(-1, -1, 0, session_id=first.session_id, session_epoch=1)
    response = await running.ask(more, FetchResponse, 12)
    assert (response.session_id, partitions_in(response)) == (0, [0, 1, 2])
    assert len(running.broker.fetch_sessions) == 0
    again = await running.ask(fetch(0, 0, session_epoch=0), FetchResponse, 12)
    assert again.session_id > 0


async def test_a_session_that_is_not_known_or_out_of_step_is_refused(running: Running) -> None:
    await running.create("t")
    unknown = await running.ask(fetch(session_id=9, session_epoch=1), FetchResponse, 12)
    assert unknown.error_code == Code.FETCH_SESSION_ID_NOT_FOUND
    first = await running.ask(fetch(0, session_epoch=0), FetchResponse, 12)
    skipped = fetch(session_id=first.session_id, session_epoch=2)
    response = await running.ask(skipped, FetchResponse, 12)
    assert response.error_code == Code.INVALID_FETCH_SESSION_EPOCH


async def test_a_session_ends_when_its_reader_says_so(running: Running) -> None:
    await running.create("t")
    first = await running.ask(fetch(0, session_epoch=0), FetchResponse, 12)
    assert len(running.broker.fetch_sessions) == 1
    last = await running.ask(
        fetch(0, session_id=first.session_id, session_epoch=-1), FetchResponse, 12
    )
    assert last.session_id == 0
    assert len(running.broker.fetch_sessions) == 0


async def test_in_a_session_a_busy_partition_lets_the_others_go_first(running: Running) -> None:
    await running.create("t", partitions=2)
    for partition in (0, 1):
        await running.produce("t", TIME, partition=partition)
        await running.produce("t", TIME, partition=partition)
    request = fetch(0, 0, session_epoch=0, max_bytes=1)
    first = await running.ask(request, FetchResponse, 12)
    assert [bool(p.records) for p in first.responses[0].partitions] == [True, False]
    following = fetch(1, session_id=first.session_id, session_epoch=1, max_bytes=1)
    response = await running.ask(following, FetchResponse, 12)
    assert partitions_in(response) == [1]
