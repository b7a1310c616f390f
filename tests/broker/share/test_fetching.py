"""Members of share groups and their leader: fetches, acknowledgements, sessions."""

import asyncio
from pathlib import Path
from uuid import UUID

from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.broker.share.member import Member, initialize, share_broker
from tests.waiting import WAIT_S

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


async def test_a_member_acquires_records_and_accepts_them(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        member = Member(broker, topic)
        reply = await member.fetch(wait_ms=5_000)
        assert (reply.code, reply.error, reply.lock_ms) == (Code.NONE, Code.NONE, 30_000)
        assert reply.acquired == [(0, 19, 1)]
        assert reply.offsets == list(range(20))
        reply = await member.fetch((0, 9, ACCEPT), (10, 19, RELEASE), wait_ms=5_000)
        assert reply.ack is Code.NONE
        assert reply.acquired == [(10, 19, 2)]
        assert reply.offsets == list(range(10, 20))


async def test_a_fetch_waits_for_records(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 0) as (broker, topic):
        member = Member(broker, topic)
        waiting = member.send(wait_ms=10_000)
        await broker.produce("jobs", 1, 2, 3)
        assert (await member.receive(waiting)).acquired == [(0, 2, 1)]


async def test_a_fetch_without_records_is_answered_when_its_time_is_over(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 0) as (broker, topic):
        reply = await Member(broker, topic).fetch(wait_ms=50)
        assert (reply.code, reply.error, reply.acquired) == (Code.NONE, Code.NONE, [])


async def test_a_waiting_fetch_is_woken_by_a_release(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        first, second = Member(broker, topic, "m1"), Member(broker, topic, "m2")
        assert (await first.fetch(wait_ms=5_000)).acquired == [(0, 9, 1)]
        waiting = second.send(wait_ms=10_000)
        assert await first.accept(3, 5, RELEASE) is Code.NONE
        assert (await second.receive(waiting)).acquired == [(3, 5, 2)]


async def test_a_closed_connection_releases_what_its_member_holds(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        first, second = Member(broker, topic, "m1"), Member(broker, topic, "m2")
        await first.fetch(wait_ms=5_000)
        waiting = second.send(wait_ms=10_000)
        (connection,) = [
            each for each in broker.broker.connections if each is _connection(broker, "m1")
        ]
        connection.close("the test closes it")
        assert (await second.receive(waiting)).acquired == [(0, 9, 2)]


def _connection(broker: object, member: str) -> object:
    service = broker.broker.share  # type: ignore[attr-defined]
    return next(
        session.connection for key, session in service.sessions.sessions.items() if key[1] == member
    )


async def test_the_end_of_an_old_connection_does_not_end_the_new_session(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        old = Member(broker, topic, "m1")
        await old.fetch(wait_ms=5_000)
        connection = _connection(broker, "m1")
        new = Member(broker, topic, "m1")
        await new.fetch()
        assert broker.broker.share is not None
        broker.broker.share.closed(connection)
        assert await new.accept(0, 9) is Code.NONE


async def test_a_session_that_ends_releases_its_records(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        first, second = Member(broker, topic, "m1"), Member(broker, topic, "m2")
        await first.fetch(wait_ms=5_000)
        response = await first.acknowledge((0, 4, ACCEPT), epoch=-1)
        assert not response.error_code
        assert (await second.fetch(wait_ms=5_000)).acquired == [(5, 9, 2)]
        assert (await first.fetch()).code is Code.SHARE_SESSION_NOT_FOUND


async def test_sessions_out_of_step_get_kafkas_codes(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        assert (await member.fetch(epoch=7)).code is Code.SHARE_SESSION_NOT_FOUND
        assert (await member.fetch(epoch=-1)).code is Code.SHARE_SESSION_NOT_FOUND
        assert (await member.fetch((0, 1, ACCEPT), epoch=0)).code is Code.INVALID_REQUEST
        await member.fetch(wait_ms=5_000)
        assert (await member.fetch(epoch=5)).code is Code.INVALID_SHARE_SESSION_EPOCH
        response = await member.acknowledge((0, 1, ACCEPT), epoch=0)
        assert response.error_code == Code.INVALID_SHARE_SESSION_EPOCH
        member.name = ""
        assert (await member.fetch(epoch=0)).code is Code.INVALID_REQUEST
        member.name = "x" * 37
        assert (await member.fetch(epoch=0)).code is Code.INVALID_REQUEST


async def test_a_session_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    settings = {"group.share.max.share.sessions": "1"}
    async with share_broker(tmp_path, settings=settings) as (broker, topic):
        await Member(broker, topic, "m1").fetch(wait_ms=5_000)
        other = Member(broker, topic, "m2")
        assert (await other.fetch(wait_ms=10)).code is Code.SHARE_SESSION_LIMIT_REACHED


async def test_acknowledgements_that_do_not_fit_get_kafkas_codes(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        member, other = Member(broker, topic, "m1"), Member(broker, topic, "m2")
        await member.fetch(wait_ms=5_000)
        await other.fetch()
        assert await other.accept(0, 3) is Code.INVALID_RECORD_STATE
        assert await member.accept(5, 50) is Code.INVALID_REQUEST
        assert await member.accept(5, 4) is Code.INVALID_REQUEST
        assert await member.accept(0, 3, 9) is Code.INVALID_REQUEST
        assert await member.accept(0, 3, RENEW) is Code.INVALID_REQUEST
        assert await member.accept(0, 9) is Code.NONE
        assert await member.accept(0, 9) is Code.NONE


async def test_a_renewal_fetches_nothing(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        reply = await member.fetch((0, 9, RENEW), renew=True)
        assert (reply.code, reply.ack, reply.acquired) == (Code.NONE, Code.NONE, [])


async def test_unknown_topics_and_uninitialized_partitions(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        assert (
            await Member(broker, UUID(int=99)).fetch(wait_ms=5_000)
        ).error is Code.UNKNOWN_TOPIC_ID
        stranger = Member(broker, topic, "m3", group="never initialized")
        assert (await stranger.fetch(wait_ms=5_000)).error is Code.UNKNOWN_SERVER_ERROR
        nowhere = Member(broker, topic)
        reply = await nowhere.fetch(partition=7, wait_ms=5_000)
        assert reply.error is Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_altered_offsets_take_effect_in_a_running_session(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 30) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000, records=10)
        await initialize(broker, topic, start=20, epoch=2)
        assert await member.accept(0, 9) is Code.NOT_LEADER_OR_FOLLOWER
        assert (await member.fetch(wait_ms=5_000)).acquired == [(20, 29, 1)]


async def test_deleted_records_are_passed_over(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 30) as (broker, topic):
        member = Member(broker, topic)
        assert (await member.fetch(wait_ms=5_000, records=10)).acquired == [(0, 9, 1)]
        deleted = DeleteRecordsTopic(
            name="jobs", partitions=[DeleteRecordsPartition(partition_index=0, offset=15)]
        )
        request = DeleteRecordsRequest(topics=[deleted], timeout_ms=1000)
        await broker.ask(request, DeleteRecordsResponse)
        assert (await member.fetch(wait_ms=5_000)).acquired == [(15, 29, 1)]
        assert await member.accept(0, 9) is Code.NONE


async def test_a_restarted_broker_delivers_what_was_not_accepted(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with share_broker(tmp_path, 30, keeper=keeper) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        assert await member.accept(10, 19) is Code.NONE
    async with share_broker(tmp_path, keeper=keeper) as (broker, topic):
        reply = await Member(broker, topic).fetch(wait_ms=10_000)
        assert [(first, last) for first, last, _ in reply.acquired] == [(0, 9), (20, 29)]


async def test_a_strict_limit_cuts_a_batch_and_sends_it_whole(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        member = Member(broker, topic)
        reply = await member.fetch(wait_ms=5_000, records=5, mode=1)
        assert reply.acquired == [(0, 4, 1)]
        assert reply.offsets == list(range(10))
        assert (await member.fetch(records=5)).acquired == [(5, 9, 1)]


async def test_many_members_share_the_window(tmp_path: Path) -> None:
    """With 16 members, four of them must not take all that may be in flight."""
    async with share_broker(tmp_path, 2_500) as (broker, topic):
        members = [Member(broker, topic, f"m{n}") for n in range(16)]
        for member in members:
            await member.fetch(records=0)
        replies = [await member.fetch(wait_ms=5_000) for member in members]
        sizes = [sum(last - first + 1 for first, last, _ in reply.acquired) for reply in replies]
        assert min(sizes) >= 50, sizes
        assert sum(sizes) <= 2_000


async def test_a_forgotten_partition_is_not_fetched(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000, records=10)
        reply = await member.fetch((0, 9, ACCEPT), forget=True, wait_ms=20)
        assert (reply.ack, reply.acquired) == (Code.NONE, [])
        assert (await member.fetch(wait_ms=20)).acquired == []


async def test_a_deleted_topic_ends_its_share_partitions(tmp_path: Path) -> None:
    from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        request = DeleteTopicsRequest(topic_names=["jobs"], timeout_ms=1000)
        await broker.ask(request, DeleteTopicsResponse, 5)
        service = broker.broker.share
        assert service is not None
        async with asyncio.timeout(WAIT_S):
            while len(service.partitions):
                await asyncio.sleep(0)
        assert not any(shard.states for shard in service.coordination.shards_loaded())
        assert service.room.runs == 0
