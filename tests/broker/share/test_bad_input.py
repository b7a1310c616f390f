"""Requests about share groups that no client sends: Kafka's codes, and bounded memory."""

import tracemalloc
from pathlib import Path
from uuid import UUID

import pytest

from barnabas.broker.authorization.answers import changed
from barnabas.coordinators.ports import Now
from barnabas.coordinators.share import sessions
from barnabas.coordinators.share.acknowledge_ranges import AcknowledgeType, AckRange, ack_ranges
from barnabas.coordinators.share.acquiring import AcquireLimits, BatchSpan
from barnabas.coordinators.share.share_partition import ShareOptions, SharePartition, ShareRoom
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from barnabas.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchResponse
from tests.broker.running import Running
from tests.broker.share.member import Member, code_of, share_broker
from tests.broker.share.test_dead_letters import configure
from tests.broker.share.test_session_ends import service_of, until

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
FINAL = -1
INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


async def acknowledge(member: Member, *batches: AcknowledgementBatch) -> Code:
    """As they are; the code of the partition."""
    part = AcknowledgePartition(partition_index=0, acknowledgement_batches=list(batches))
    request = ShareAcknowledgeRequest(
        group_id=member.group,
        member_id=member.name,
        share_session_epoch=member.epoch,
        is_renew_ack=False,
        topics=[AcknowledgeTopic(topic_id=member.topic, partitions=[part])],
    )
    member.epoch += 1
    response = await member.broker.ask(request, ShareAcknowledgeResponse, 2, member.wire)
    assert not response.error_code
    return code_of(response.responses[0].partitions[0].error_code)


def batch(first: int, last: int, *types: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))


BAD = [
    ([batch(10, 19, ACCEPT)], Code.INVALID_REQUEST),  # never acquired: past the end
    ([batch(5, 12, ACCEPT)], Code.INVALID_REQUEST),  # in part
    ([batch(0, INT64_MAX, ACCEPT)], Code.INVALID_REQUEST),
    ([batch(INT64_MAX, INT64_MAX, ACCEPT)], Code.INVALID_REQUEST),
    ([batch(-5, -2, ACCEPT)], Code.INVALID_REQUEST),
    ([batch(3, 1, ACCEPT)], Code.INVALID_REQUEST),
    ([batch(0, 4, ACCEPT), batch(3, 9, ACCEPT)], Code.INVALID_REQUEST),  # they overlap
    ([batch(5, 9, ACCEPT), batch(0, 4, ACCEPT)], Code.INVALID_REQUEST),  # not in order
    ([batch(0, 4, ACCEPT), batch(4, 9, ACCEPT)], Code.INVALID_RECORD_STATE),  # in one offset
    ([batch(0, 9)], Code.INVALID_REQUEST),  # no type
    ([batch(0, 9, ACCEPT, ACCEPT)], Code.INVALID_REQUEST),  # two types for ten offsets
    ([batch(0, 0, 5)], Code.INVALID_REQUEST),
    ([batch(0, 0, -1)], Code.INVALID_REQUEST),
    ([batch(0, 0, RENEW)], Code.INVALID_REQUEST),  # without the flag of the request
]


async def test_bad_acknowledgements_get_kafkas_codes_and_change_nothing(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        member = Member(broker, topic)
        assert (await member.fetch(wait_ms=5_000, records=10)).acquired == [(0, 9, 1)]
        for batches, code in BAD:
            assert await acknowledge(member, *batches) is code, batches
        assert await acknowledge(member) is Code.NONE
        assert await acknowledge(member, batch(0, 2, ACCEPT), batch(7, 9, ACCEPT)) is Code.NONE
        assert await acknowledge(member, batch(3, 6, ACCEPT, RELEASE, ACCEPT, ACCEPT)) is Code.NONE
        assert (await member.fetch(wait_ms=5_000, records=1)).acquired == [(4, 4, 2)]


async def test_records_of_another_member_cannot_be_acknowledged(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        mine, theirs = Member(broker, topic, "m1"), Member(broker, topic, "m2")
        await mine.fetch(wait_ms=5_000, records=10)
        await theirs.fetch(wait_ms=5_000, records=10)
        assert await mine.accept(10, 19) is Code.INVALID_RECORD_STATE
        assert await mine.accept(0, 19) is Code.INVALID_RECORD_STATE  # some are its own
        assert await mine.accept(0, 9) is Code.NONE
        assert await theirs.accept(10, 19) is Code.NONE


async def test_an_acknowledgement_after_the_lock_has_ended_is_refused(tmp_path: Path) -> None:
    settings = {"group.share.min.record.lock.duration.ms": "1000"}
    async with share_broker(tmp_path, 10, settings) as (broker, topic):
        await configure(broker, share_record_lock_duration_ms="1000")
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        (share,) = service_of(broker).partitions
        machine = share.machine
        assert machine is not None
        await until(lambda: machine.statistics.counts["expired"])
        assert await member.accept(0, 9) is Code.INVALID_RECORD_STATE
        assert (await member.fetch(wait_ms=5_000)).acquired == [(0, 9, 2)]
        assert await member.accept(0, 9) is Code.NONE


async def test_a_member_without_a_session_acknowledges_nothing(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        member, stranger = Member(broker, topic), Member(broker, topic, "m2")
        await member.fetch(wait_ms=5_000)
        response = await stranger.acknowledge((0, 9, ACCEPT), epoch=1)
        assert response.error_code == Code.SHARE_SESSION_NOT_FOUND
        response = await stranger.acknowledge((0, 9, ACCEPT), epoch=FINAL)
        assert response.error_code == Code.SHARE_SESSION_NOT_FOUND
        assert await member.accept(0, 9) is Code.NONE


async def test_a_partition_that_no_member_has_read_cannot_be_acknowledged(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000, partition=7)
        assert await member.accept(0, 9) is Code.UNKNOWN_TOPIC_OR_PARTITION
        member.topic = UUID(int=99)
        assert await member.accept(0, 9) is Code.UNKNOWN_TOPIC_ID


async def test_a_repeated_or_skipped_epoch_is_refused_and_the_session_goes_on(
    tmp_path: Path,
) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000, records=10)  # epoch 0
        assert (await member.fetch(epoch=1)).code is Code.NONE
        for epoch in (1, 3, -2, 0x7FFF_FFFF):
            assert (await member.fetch(epoch=epoch)).code is Code.INVALID_SHARE_SESSION_EPOCH
            response = await member.acknowledge((0, 9, ACCEPT), epoch=epoch)
            assert response.error_code == Code.INVALID_SHARE_SESSION_EPOCH
        member.epoch = 2
        assert await member.accept(0, 9) is Code.NONE
        assert (await member.fetch(epoch=FINAL)).code is Code.NONE
        assert (await member.fetch(epoch=3)).code is Code.SHARE_SESSION_NOT_FOUND


async def test_after_the_last_epoch_the_first_follows(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        (session,) = service_of(broker).sessions.sessions.values()
        session.epoch = sessions.EPOCH_MAX
        assert (await member.fetch(epoch=sessions.EPOCH_MAX)).code is Code.NONE
        assert (await member.fetch(epoch=1)).code is Code.NONE


async def test_sessions_have_a_bounded_number_of_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of topics that do not exist."""
    monkeypatch.setattr(sessions, "PARTITIONS_MAX", 100)

    def named(count: int, topic: UUID) -> list[FetchTopic]:
        parts = [
            FetchPartition(partition_index=number, acknowledgement_batches=[])
            for number in range(count)
        ]
        return [FetchTopic(topic_id=topic, partitions=parts)]

    async def asked(broker: Running, member: Member, count: int) -> Code:
        request = changed(member.request(), topics=named(count, UUID(int=7)))
        response = await broker.ask(request, ShareFetchResponse, 2, member.wire)
        return code_of(response.error_code)

    async with share_broker(tmp_path) as (broker, topic):
        first, second = Member(broker, topic, "m1"), Member(broker, topic, "m2")
        assert await asked(broker, first, 90) is Code.NONE
        assert await asked(broker, second, 11) is Code.SHARE_SESSION_LIMIT_REACHED
        second.epoch = 0
        assert await asked(broker, second, 10) is Code.NONE
        assert await asked(broker, second, 11) is Code.SHARE_SESSION_LIMIT_REACHED  # one more
        first.epoch = 0
        assert await asked(broker, first, 91) is Code.SHARE_SESSION_LIMIT_REACHED
        first.epoch = 1
        assert (await first.fetch(epoch=1)).code is Code.NONE  # its session goes on
        assert service_of(broker).sessions.partitions == 100


async def test_a_group_or_a_member_without_a_name_is_an_invalid_request(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        for name in ("", "x" * 37):
            member = Member(broker, topic, name)
            assert (await member.fetch(epoch=0)).code is Code.INVALID_REQUEST
            response = await member.acknowledge(epoch=1)
            assert response.error_code == Code.INVALID_REQUEST
        assert (await Member(broker, topic, group="").fetch(epoch=0)).code is Code.NONE
        assert list(service_of(broker).sessions.sessions) == [("", "m1")]


# The machine: a million ranges


def test_a_million_ranges_in_one_request_cost_no_more_than_the_window() -> None:
    """Ranges below the start offset are confirmed, as in Kafka; nothing is kept of them."""
    share = SharePartition(5_000_000, 0, ShareOptions())
    share.acquire(
        "m", 5_000_000, [BatchSpan(5_000_000, 5_000_009, 0, 10)], AcquireLimits(10, 10), 0
    )
    ranges = [AckRange(at, at, AcknowledgeType.ACCEPT) for at in range(0, 2_000_000, 2)]
    tracemalloc.start()
    try:
        assert share.acknowledge("m", ranges, Now(0, 0)) is None
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert share.in_flight == 10


def test_the_runs_of_a_share_partition_are_bounded_by_its_window() -> None:
    """Every second record is finished, which makes the most runs there can be."""
    room = ShareRoom()
    share = SharePartition(0, 0, ShareOptions(locks_max=2_000), room)
    spans = [BatchSpan(0, 999_999, 0, 10)]
    share.acquire("m", 0, spans, AcquireLimits(1_000_000, 10), 0)
    assert share.in_flight == 2_000
    ranges = [AckRange(at, at, AcknowledgeType.ACCEPT) for at in range(1, 2_000, 2)]
    change = share.acknowledge("m", ranges, Now(0, 0))
    assert change is not None
    share.written(change.token)
    assert room.runs == len(share.runs) <= 2_000
    assert share.next_fetch_offset(0) is None


def test_a_broker_with_a_million_runs_delivers_only_what_is_in_flight() -> None:
    room = ShareRoom(runs_max=1_000)
    shares = [SharePartition(0, 0, ShareOptions(locks_max=100), room) for _ in range(100)]
    spans = [BatchSpan(0, 99, 0, 10)]
    for share in shares:
        share.acquire("m", 0, spans, AcquireLimits(100, 10), 0)
        if not share.in_flight:
            continue
        ranges = [AckRange(at, at, AcknowledgeType.ACCEPT) for at in range(1, 100, 2)]
        change = share.acknowledge("m", ranges, Now(0, 0))
        assert change is not None
        share.written(change.token)
    assert room.runs < room.runs_max + 100  # one more share partition at most
    empty = [share for share in shares if not share.in_flight]
    assert empty
    busy = shares[0]
    busy.expire(Now(30_000, 0))
    assert busy.acquire("m", 0, spans, AcquireLimits(100, 10), 30_000).records == 50
    for share in shares:
        share.close()
    assert room.runs == 0


def test_a_range_with_a_type_for_each_offset_is_as_long_as_the_request() -> None:
    with pytest.raises(InvalidRequest) as refused:
        ack_ranges([batch(0, INT64_MAX, ACCEPT, ACCEPT)], may_renew=False)
    assert refused.value.code is Code.INVALID_REQUEST
    assert ack_ranges([batch(0, INT64_MAX, ACCEPT)], may_renew=False) == [
        AckRange(0, INT64_MAX, AcknowledgeType.ACCEPT)
    ]


def test_an_acknowledgement_of_everything_there_ever_was_touches_no_offset() -> None:
    share = SharePartition(0, 0, ShareOptions())
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("m", [AckRange(0, INT64_MAX, AcknowledgeType.ACCEPT)], Now(0, 0))
    assert refused.value.code is Code.INVALID_RECORD_STATE
