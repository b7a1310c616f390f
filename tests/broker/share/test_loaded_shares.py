"""Share partitions in the memory of their leader: when they are read again, and what goes wrong."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.authorization.answers import changed
from barnabas.broker.delivery_delay import DeliveryDelay, set_delay
from barnabas.broker.share import batch_spans, fetching
from barnabas.broker.share.partitions import LoadedShare
from barnabas.broker.share.service import share_service
from barnabas.coordinators.share.keys import StateKey, StateResult
from barnabas.coordinators.share.state_shard import StateRead
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code, Failed
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchResponse
from tests.broker.handlers.test_fetch import TIME
from tests.broker.handlers.test_fetch_committed import end, write
from tests.broker.running import Running, running_broker
from tests.broker.share.member import GROUP, Member, initialize, share_broker
from tests.broker.share.test_dead_letters import configure
from tests.broker.share.test_session_ends import HeldWrites, delete, service_of, until
from tests.waiting import WAIT_S

ACCEPT, RELEASE = 1, 2
DAY_MS = 86_400_000


def share_of(broker: Running) -> LoadedShare:
    (share,) = service_of(broker).partitions
    return share


async def test_another_delay_of_the_topic_keeps_the_locks_of_members(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        partition = broker.broker.topics.existing("jobs").partition(0)
        set_delay(partition, DAY_MS, broker.broker.clock, broker.broker.loop)
        set_delay(partition, 0, broker.broker.clock, broker.broker.loop)
        assert await member.accept(0, 9) is Code.NONE


async def test_a_refused_share_partition_is_read_again_when_its_other_writes_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The acceptance that is confirmed must be in the state that is read."""
    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        writes = HeldWrites(service_of(broker), monkeypatch)
        accepting = member.send((0, 4, ACCEPT))
        await until(lambda: len(writes) == 1)
        releasing = member.send((5, 9, RELEASE))
        await until(lambda: len(writes) == 2)
        _, released = writes.take(1)
        released(StateResult((topic, 0), Code.UNKNOWN_TOPIC_OR_PARTITION))
        other = Member(broker, topic, "m2")
        waiting = other.send(wait_ms=10_000)
        await until(lambda: share_of(broker).waiters)
        for _ in range(50):  # a state that is read too early would be read by then
            await asyncio.sleep(0)
        writes.send()
        assert (await member.receive(accepting)).ack is Code.NONE
        assert (await member.receive(releasing)).ack is Code.UNKNOWN_TOPIC_OR_PARTITION
        assert (await other.receive(waiting)).acquired == [(5, 9, 1)]


async def test_a_state_that_was_deleted_is_read_again(tmp_path: Path) -> None:
    """A session that outlives its group must not write into a new group of the same name."""
    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        await delete(broker, topic)
        assert await member.accept(0, 4) is Code.UNKNOWN_SERVER_ERROR
        await initialize(broker, topic)
        assert (await member.fetch(wait_ms=5_000)).acquired == [(0, 9, 1)]


async def test_a_group_that_was_made_again_meanwhile_is_read_again(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        await initialize(broker, topic, start=0, epoch=7)
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        await delete(broker, topic)
        await initialize(broker, topic, epoch=1)
        assert await member.accept(0, 4) is Code.NOT_LEADER_OR_FOLLOWER
        assert (await member.fetch(wait_ms=5_000)).acquired == [(0, 9, 1)]


async def test_a_state_that_cannot_be_understood_is_an_error_for_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an answer they would wait for ever."""
    async with share_broker(tmp_path) as (broker, topic):
        await Member(broker, topic, "m0", group="other").fetch()
        service = service_of(broker)

        async def read(key: StateKey, epoch: int) -> StateRead:
            return StateRead(key, Code.NONE, 1, 0, ((0, 5, 3, 1),))  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(service.states, "read", read)
            reply = await Member(broker, topic).fetch(wait_ms=20_000)
            assert reply.error is Code.UNKNOWN_SERVER_ERROR
        assert (await Member(broker, topic, "m2").fetch(wait_ms=5_000)).acquired == [(0, 9, 1)]


async def test_a_log_that_cannot_be_read_is_an_error_for_waiting_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with share_broker(tmp_path, 0) as (broker, topic):
        partition = broker.broker.topics.existing("jobs").partition(0)
        set_delay(partition, 1, broker.broker.clock, broker.broker.loop)
        member = Member(broker, topic)
        waiting = member.send(wait_ms=30_000)
        await until(lambda: len(service_of(broker).partitions) and share_of(broker).waiters)

        def fails(_: DeliveryDelay) -> int:
            raise Failed(Code.KAFKA_STORAGE_ERROR, "the disk is gone")

        monkeypatch.setattr(DeliveryDelay, "end", fails)
        share_of(broker).appended(1)
        async with asyncio.timeout(WAIT_S):
            assert (await member.receive(waiting)).error is Code.KAFKA_STORAGE_ERROR
        assert not broker.broker.counts.failures


async def test_a_fetch_of_a_replaced_session_acquires_nothing(tmp_path: Path) -> None:
    """Its connection may be dead: nobody would process the records until their locks end."""
    async with share_broker(tmp_path, 0) as (broker, topic):
        old = Member(broker, topic)
        await old.fetch()
        waiting = old.send(wait_ms=30_000)
        await until(lambda: share_of(broker).waiters)
        new = Member(broker, topic)
        await new.fetch()
        await broker.produce("jobs", *range(10))
        assert (await old.receive(waiting)).acquired == []
        assert (await new.fetch(wait_ms=5_000)).acquired == [(0, 9, 1)]


async def test_a_long_stretch_without_records_is_passed_over_by_one_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of markers only: one turn passes over some, and the next turns over the others."""
    async with share_broker(tmp_path, 0) as (broker, topic):
        monkeypatch.setattr(fetching, "READS_MAX", 2)
        for _ in range(20):
            await broker.produce("jobs", 1)
        await broker.produce("jobs", 1, 2, 3)
        monkeypatch.setattr(fetching.ShareFetchWait, "_bytes_max", 1)
        spans = batch_spans.spans
        monkeypatch.setattr(
            fetching,
            "spans",
            lambda found: (
                each._replace(empty=True) if each.last < 20 else each for each in spans(found)
            ),
        )
        async with asyncio.timeout(WAIT_S):
            reply = await Member(broker, topic).fetch(wait_ms=60_000)
        assert reply.acquired == [(20, 22, 1)]


class WideMember(Member):
    """Of a topic with several partitions, each with a batch of 20 records."""

    async def fetch_all(self, partitions: int, **limits: Any) -> dict[int, int]:
        """The size of the records of each partition that has some."""
        request = self.request(wait_ms=5_000)
        named = [
            FetchPartition(partition_index=number, acknowledgement_batches=[])
            for number in range(partitions)
        ]
        request = changed(
            request, topics=[FetchTopic(topic_id=self.topic, partitions=named)], **limits
        )
        response = await self.broker.ask(request, ShareFetchResponse, 2, self.wire)
        sizes = {
            each.partition_index: len(bytes(each.records))  # type: ignore[arg-type]
            for each in response.responses[0].partitions
        }
        return {number: size for number, size in sizes.items() if size}


async def wide_member(broker: Running, partitions: int) -> WideMember:
    wide = (await broker.create("wide", partitions)).topic_id
    states = service_of(broker).states
    await states.initialize(GROUP, {(wide, number): 0 for number in range(partitions)}, 1)
    for number in range(partitions):
        await broker.produce("wide", *range(20), partition=number)
    return WideMember(broker, wide)


async def test_a_fetch_is_answered_when_the_first_of_its_partitions_is_read(
    tmp_path: Path,
) -> None:
    """As in Kafka; librdkafka's tests expect it. The next fetch has the others."""
    async with share_broker(tmp_path, 0) as (broker, _):
        member = await wide_member(broker, 3)
        first = await member.fetch_all(3)
        assert len(first) == 1
        await until(lambda: all(each.machine for each in service_of(broker).partitions))
        assert (await member.fetch_all(3)).keys() == {0, 1, 2} - first.keys()


async def test_a_reply_over_many_partitions_keeps_to_its_bytes(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 0) as (broker, _):
        member = await wide_member(broker, 8)
        await member.fetch_all(8)
        await until(lambda: all(each.machine for each in service_of(broker).partitions))
        sizes = list((await member.fetch_all(8, max_bytes=400)).values())
        assert 400 <= sum(sizes) <= 400 + max(sizes)


async def test_of_a_partition_that_is_named_twice_the_last_acknowledgement_counts(
    tmp_path: Path,
) -> None:
    """As in Kafka; its reply is that of its write, not of the first one."""
    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        topics = [
            each for last in (4, 9) for each in member.request(((0, last, ACCEPT),), epoch=1).topics
        ]
        request = changed(member.request(), topics=topics)
        response = await broker.ask(request, ShareFetchResponse, 2, member.wire)
        assert response.responses[0].partitions[0].acknowledge_error_code == Code.NONE
        machine = share_of(broker).machine
        assert machine is not None
        assert machine.start == 10


async def test_the_state_of_a_topic_that_was_deleted_before_its_shard_was_loaded_is_deleted(
    tmp_path: Path,
) -> None:
    """Or it would be kept, and written again every five minutes, for ever."""
    keeper = MemoryKeeper()
    async with share_broker(tmp_path, keeper=keeper) as (broker, topic):
        await Member(broker, topic).fetch(wait_ms=5_000)
    async with running_broker(tmp_path, keeper=keeper) as broker:
        request = DeleteTopicsRequest(topic_names=["jobs"], timeout_ms=1000)
        assert broker.broker.share is None
        await broker.ask(request, DeleteTopicsResponse, 5)
        coordination = share_service(broker.broker).coordination
        await until(lambda: len(coordination.shards_loaded()) == 50)
        await until(lambda: not any(shard.states for shard in coordination.shards_loaded()))


async def test_a_waiting_fetch_that_fails_unexpectedly_is_answered_and_the_next_one_has_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with share_broker(tmp_path, 0) as (broker, topic):
        first, second = Member(broker, topic, "m1"), Member(broker, topic, "m2")
        waiting = [member.send(wait_ms=30_000) for member in (first, second)]
        await until(
            lambda: len(service_of(broker).partitions) and len(share_of(broker).waiters) == 2
        )
        acquire = fetching.ShareFetchWait._acquire
        failures = iter([ValueError("a bug")])

        def fails_once(self: fetching.ShareFetchWait, found: list[fetching.ReadableShare]) -> Any:
            for failure in failures:
                raise failure
            return acquire(self, found)

        monkeypatch.setattr(fetching.ShareFetchWait, "_acquire", fails_once)
        await broker.produce("jobs", *range(10))
        async with asyncio.timeout(WAIT_S):
            assert (await first.receive(waiting[0])).error is Code.UNKNOWN_SERVER_ERROR
            assert (await second.receive(waiting[1])).acquired == [(0, 9, 1)]
        assert broker.broker.counts.failures == 1


async def test_a_fetch_that_waits_for_many_bytes_does_not_look_at_each_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with share_broker(tmp_path, 0) as (broker, topic):
        member = Member(broker, topic)
        request = changed(member.request(wait_ms=30_000), min_bytes=5_000)
        broker.send(request, 2, member.wire)
        await until(lambda: len(service_of(broker).partitions))
        await until(lambda: share_of(broker).waiters)
        readable, looks = fetching.ShareFetchWait._readable, 0

        def counted(self: fetching.ShareFetchWait) -> Any:
            nonlocal looks
            looks += 1
            return readable(self)

        monkeypatch.setattr(fetching.ShareFetchWait, "_readable", counted)
        appends = 0
        while share_of(broker).waiters:
            await broker.produce("jobs", *range(10))
            appends += 1
        response = await broker.receive(request, ShareFetchResponse, 2, member.wire)
        (partition,) = response.responses[0].partitions
        assert isinstance(partition.records, bytes | memoryview)
        assert len(partition.records) >= 5_000
        assert appends > 10
        assert looks <= 3


@pytest.mark.parametrize("records_before", [0, 10])
@pytest.mark.parametrize("is_open_before", [True, False])
async def test_a_fetch_that_waits_for_many_bytes_gets_a_transaction_when_it_is_committed(
    tmp_path: Path, records_before: int, is_open_before: bool
) -> None:
    """Its records were appended before they could be read: the marker alone has few bytes."""
    async with share_broker(tmp_path, 0) as (broker, topic):
        if records_before:  # of the same time as the transaction: in one segment
            await broker.produce("jobs", *[TIME] * records_before)
        await configure(broker, share_isolation_level="read_committed")
        partition = broker.broker.topics.existing("jobs").partition(0)
        member = Member(broker, topic)
        request = changed(member.request(wait_ms=60_000), min_bytes=1_000)
        if is_open_before:
            write(partition, 0)
        broker.send(request, 2, member.wire)
        await until(lambda: len(service_of(broker).partitions))
        share = share_of(broker)
        await until(lambda: share.machine is not None and share.waiters and not share._waking)
        for sequence in range(int(is_open_before), 50):
            write(partition, sequence)
            await until(lambda: not share._waking)
        end(partition, commit=True)
        response = await broker.receive(request, ShareFetchResponse, 2, member.wire)
        (found,) = response.responses[0].partitions
        assert found.acquired_records[0].first_offset == 0
        assert found.acquired_records[-1].last_offset >= records_before + 49
