"""Partitions on several brokers: what producers are told, and that the logs are the same."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.broker import Broker
from barnabas.broker.partition import Partition
from barnabas.config.broker_roles import RACK_SELECTOR
from barnabas.keeper.keeper import SessionState
from barnabas.model.errors import Code
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.broker.clustered import Clustered, cluster_of
from tests.waiting import eventually

QUIET = {"replica.lag.time.max.ms": "60000"}
ALL = -1


async def produce(
    cluster: Clustered, at: int, topic: str = "t", *, acks: int = ALL, timeout_ms: int = 20_000,
    count: int = 1,
) -> PartitionProduceResponse:  # fmt: skip
    records = [Record(n, 1_700_000_000_000 + n, b"key", b"value" * 20, ()) for n in range(count)]
    data = PartitionProduceData(index=0, records=memoryview(encode_batch(records)))
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    response = await cluster.ask(at, request, ProduceResponse, 12)
    return response.responses[0].partition_responses[0]


async def fetch(
    cluster: Clustered, at: int, offset: int = 0, *, version: int = 17, **options: Any
) -> PartitionData:
    topic = cluster.brokers[at].topics.existing("t")
    asked = FetchPartition(
        partition=0,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=options.pop("epoch", -1),
    )
    named = {"topic_id": topic.id} if version >= 13 else {"topic": "t"}
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[FetchTopic(partitions=[asked], **named)],
        **options,
    )
    response = await cluster.ask(at, request, FetchResponse, version)
    return response.responses[0].partitions[0]


async def reassign(cluster: Clustered, to: list[int]) -> None:
    asked = ReassignablePartition(partition_index=0, replicas=to)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[asked])]
    )
    answer = await cluster.ask(1, request, AlterPartitionReassignmentsResponse)
    assert not answer.error_code
    assert not answer.responses[0].partitions[0].error_code


def contents(partition: Partition) -> bytes:
    log = partition.log
    data, offset = b"", log.start_offset
    while offset < log.end_offset:
        found = log.read(offset, 1 << 20, log.end_offset)
        assert found.file_slice is not None
        part = found.file_slice
        data += part.file.read(part.position, part.length)
        offset = found.next_offset
    return data


def alike(partitions: Iterable[Partition]) -> bool:
    first, *others = partitions
    return all(
        (each.log.start_offset, each.log.end_offset, each.log.high_watermark)
        == (first.log.start_offset, first.log.end_offset, first.log.high_watermark)
        and contents(each) == contents(first)
        and each.log.epochs.entries == first.log.epochs.entries
        for each in others
    )


def replicas(cluster: Clustered, topic: str = "t") -> list[Partition]:
    return [cluster.partition(id_, topic) for id_ in cluster.brokers]


async def stop_fetching(broker: Broker) -> None:
    assert broker.replicas is not None
    await broker.replicas.fetchers.close()


async def test_every_replica_has_the_same_bytes_and_learns_what_is_committed(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t")
        leader = cluster.leader("t")
        for count in (1, 5, 100):
            answer = await produce(cluster, leader, count=count)
            assert not answer.error_code
        assert cluster.partition(leader, "t").log.high_watermark == 106
        await eventually(lambda: alike(replicas(cluster)))
        # With acks=1 nobody waits, and it is replicated all the same.
        answer = await produce(cluster, leader, acks=1)
        assert (answer.error_code, answer.base_offset) == (0, 106)
        await eventually(lambda: alike(replicas(cluster)))
        await check_who_may_be_asked(cluster, leader)


async def test_a_replica_that_was_alone_gets_others_that_have_all_it_took_before(
    tmp_path: Path,
) -> None:
    """Alone, a record counts when it is appended, and the machine that decides hears of it late."""
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t", replicas=1)
        leader = cluster.leader("t")
        assert cluster.partition(leader, "t").commits_immediately
        for number in range(5):
            answer = await produce(cluster, leader)
            assert (answer.error_code, answer.base_offset) == (0, number)
        others = [id_ for id_ in cluster.brokers if id_ != leader]
        await reassign(cluster, [leader, *others])
        await eventually(lambda: len(cluster.partition(leader, "t").in_sync) == 3)
        assert not cluster.partition(leader, "t").commits_immediately
        assert not (await produce(cluster, leader)).error_code
        await eventually(lambda: alike(replicas(cluster)))
        assert cluster.partition(leader, "t").log.high_watermark == 6
        await reassign(cluster, [leader])
        await eventually(lambda: cluster.partition(leader, "t").commits_immediately)
        assert (await produce(cluster, leader)).base_offset == 6
        assert cluster.partition(leader, "t").log.high_watermark == 7


async def check_who_may_be_asked(cluster: Clustered, leader: int) -> None:
    follower = next(id_ for id_ in cluster.brokers if id_ != leader)
    answer = await produce(cluster, follower)
    assert answer.error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == leader
    # A consumer may read at a follower, if it is new enough to have been sent there.
    data = await fetch(cluster, follower)
    assert (data.error_code, data.high_watermark) == (0, 107)
    assert data.records
    data = await fetch(cluster, follower, version=10)
    assert data.error_code == Code.NOT_LEADER_OR_FOLLOWER
    epoch = cluster.partition(leader, "t").leader_epoch
    data = await fetch(cluster, leader, epoch=epoch + 1)
    assert data.error_code == Code.UNKNOWN_LEADER_EPOCH
    # Nobody becomes a replica by saying so.
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=99, replica_epoch=1),
        max_wait_ms=0,
        min_bytes=1,
        session_epoch=0,
        topics=[],
    )
    answer_to_stranger = await cluster.ask(leader, request, FetchResponse)
    assert answer_to_stranger.error_code == Code.BROKER_ID_NOT_REGISTERED
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    where = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])]
    )
    offsets = await cluster.ask(follower, where, ListOffsetsResponse)
    assert offsets.topics[0].partitions[0].error_code == Code.NOT_LEADER_OR_FOLLOWER


async def test_a_leader_that_may_have_a_successor_does_not_say_that_an_offset_is_out_of_range(
    tmp_path: Path,
) -> None:
    """Its session may have expired, and the next leader may have written that offset: a consumer
    that is told OFFSET_OUT_OF_RANGE begins again at auto.offset.reset."""
    async with cluster_of(tmp_path, settings=QUIET) as cluster:
        await cluster.create("t")
        leader = cluster.leader("t")
        await produce(cluster, leader)
        assert (await fetch(cluster, leader, 2)).error_code == Code.OFFSET_OUT_OF_RANGE
        membership = cluster.brokers[leader].cluster
        assert membership is not None
        calls = membership._keeper_calls
        calls._pass_on(calls._number, SessionState.SUSPENDED)
        assert (await fetch(cluster, leader, 2)).error_code == Code.NOT_LEADER_OR_FOLLOWER
        assert (await fetch(cluster, leader, 1)).error_code == 0
        calls._pass_on(calls._number, SessionState.CONNECTED)
        assert (await fetch(cluster, leader, 2)).error_code == Code.OFFSET_OUT_OF_RANGE


async def test_acks_all_fails_when_too_few_replicas_have_the_record(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, settings=QUIET) as cluster:
        await cluster.create("t", min_insync_replicas="2")
        leader = cluster.leader("t")
        assert not (await produce(cluster, leader)).error_code
        followers = [id_ for id_ in cluster.brokers if id_ != leader]
        for id_ in followers:
            await stop_fetching(cluster.brokers[id_])
        answer = await produce(cluster, leader, timeout_ms=50)
        assert answer.error_code == Code.REQUEST_TIMED_OUT
        assert cluster.partition(leader, "t").log.high_watermark == 1
        # One goes: not enough are left to ever commit it, which those who wait hear at once.
        waiting = asyncio.ensure_future(produce(cluster, leader))
        await eventually(lambda: cluster.partition(leader, "t").log.end_offset == 3)
        for id_ in followers:
            await cluster.kill(id_)
        assert (await waiting).error_code == Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        answer = await produce(cluster, leader)
        assert answer.error_code == Code.NOT_ENOUGH_REPLICAS
        assert cluster.partition(leader, "t").log.end_offset == 3
        # They come back, and everything counts.
        await cluster.start(*followers)
        await eventually(lambda: len(cluster.partition(leader, "t").in_sync) == 3)
        await eventually(lambda: cluster.partition(leader, "t").log.high_watermark == 3)
        assert not (await produce(cluster, leader)).error_code
        await eventually(lambda: alike(replicas(cluster)))


def word_of(cluster: Clustered, at: int, leader: int, *, epochs: int = 1) -> LeaderAndIsrRequest:
    """What the controller would say if it had elected somebody."""
    broker = cluster.brokers[at]
    assert broker.cluster is not None
    topic, partition = broker.topics.existing("t"), cluster.partition(at, "t")
    state = LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=broker.cluster._controller_epoch,
        leader=leader,
        leader_epoch=partition.leader_epoch + epochs,
        isr=list(partition.in_sync),
        partition_epoch=partition.partition_epoch + epochs,
        replicas=list(partition.replicas),
        adding_replicas=[],
        removing_replicas=[],
    )
    return LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=broker.cluster._controller_epoch,
        broker_epoch=broker.cluster.broker_epoch,
        type=1,
        topic_states=[
            LeaderAndIsrTopicState(topic_name="t", topic_id=topic.id, partition_states=[state])
        ],
        live_leaders=[],
    )


async def test_requests_that_wait_for_acks_all_are_answered_when_the_leader_changes(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, settings=QUIET) as cluster:
        await cluster.create("t")
        leader = cluster.leader("t")
        followers = [id_ for id_ in cluster.brokers if id_ != leader]
        for id_ in followers:
            await stop_fetching(cluster.brokers[id_])
        waiting = asyncio.ensure_future(produce(cluster, leader))
        partition = cluster.partition(leader, "t")
        await eventually(lambda: partition.log.end_offset == 1)
        word = word_of(cluster, leader, followers[0])
        old = word_of(cluster, leader, leader, epochs=-1)
        here = cluster.brokers[leader].replicas
        assert here is not None
        answer = await here.lead_and_follow(word)
        assert answer.topics[0].partition_errors[0].error_code == 0
        told = await waiting
        assert told.error_code == Code.NOT_LEADER_OR_FOLLOWER
        assert told.current_leader.leader_id == followers[0]
        # An older word, late, changes nothing.
        answer = await here.lead_and_follow(old)
        assert answer.topics[0].partition_errors[0].error_code == Code.STALE_CONTROLLER_EPOCH
        assert partition.leader == followers[0]


async def test_uncommitted_records_are_truncated_where_the_new_leader_differs(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, settings=QUIET) as cluster:
        await cluster.create("t")
        leader = cluster.leader("t")
        await produce(cluster, leader, count=10)
        followers = [id_ for id_ in cluster.brokers if id_ != leader]
        for id_ in followers:
            await stop_fetching(cluster.brokers[id_])
        assert (await produce(cluster, leader, acks=1, count=7)).base_offset == 10
        await cluster.kill(leader)
        for id_ in followers:  # as new processes: they fetch again
            await cluster.kill(id_)
            await cluster.start(id_)
        await eventually(lambda: cluster.leader("t") in followers)
        new = cluster.leader("t")
        await eventually(lambda: cluster.partition(new, "t").leading is not None)
        answer = await produce(cluster, new, acks=1, count=3)
        assert (answer.error_code, answer.base_offset) == (0, 10)
        await cluster.start(leader)
        await eventually(
            lambda: alike(replicas(cluster)) and replicas(cluster)[0].log.end_offset == 13
        )
        await eventually(lambda: cluster.partition(new, "t").log.high_watermark == 13)
        assert "log truncated" in cluster.logs[leader].getvalue()


async def test_a_follower_whose_next_records_are_gone_starts_again(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t")
        leader = cluster.leader("t")
        await produce(cluster, leader, count=10)
        behind = next(id_ for id_ in cluster.brokers if id_ != leader)
        await cluster.stop(behind)
        leader = cluster.leader("t")
        await eventually(lambda: cluster.partition(leader, "t").leading is not None)
        await eventually(lambda: len(cluster.partition(leader, "t").in_sync) == 2)
        for _ in range(3):
            assert not (await produce(cluster, leader, count=10)).error_code
        await eventually(lambda: alike(replicas(cluster)))
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=25)]
                )
            ],
            timeout_ms=1000,
        )
        await cluster.ask(leader, request, DeleteRecordsResponse)
        await eventually(lambda: all(each.log.start_offset == 25 for each in replicas(cluster)))
        await cluster.start(behind)
        await eventually(lambda: len(cluster.partition(leader, "t").in_sync) == 3)
        await eventually(lambda: cluster.partition(behind, "t").log.start_offset == 25)
        assert cluster.partition(behind, "t").log.end_offset == 40
        assert "log restarted empty" in cluster.logs[behind].getvalue()


async def test_a_consumer_is_sent_to_a_replica_in_its_rack(tmp_path: Path) -> None:
    settings = {"replica.selector.class": RACK_SELECTOR}
    cluster = Clustered(tmp_path, settings)
    try:
        await asyncio.gather(
            *(cluster.make(id_, {"broker.rack": f"rack{id_}"}).join() for id_ in (1, 2, 3))
        )
        await cluster.create("t")
        leader = cluster.leader("t")
        await produce(cluster, leader)
        near = next(id_ for id_ in cluster.brokers if id_ != leader)
        await eventually(lambda: alike(replicas(cluster)))
        data = await fetch(cluster, leader, rack_id=f"rack{near}")
        assert (data.error_code, data.preferred_read_replica, data.records) == (0, near, b"")
        data = await fetch(cluster, near, rack_id=f"rack{near}")
        assert data.records
        for rack in (f"rack{leader}", "elsewhere", ""):
            data = await fetch(cluster, leader, rack_id=rack)
            assert data.preferred_read_replica == -1
            assert data.records
    finally:
        await cluster.stop(*list(cluster.brokers))


@pytest.mark.parametrize("messages", ["1"])
async def test_where_records_are_synced_first_each_replica_does(
    tmp_path: Path, messages: str
) -> None:
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t", flush_messages=messages)
        leader = cluster.leader("t")
        for acks in (ALL, 1, ALL):
            assert not (await produce(cluster, leader, acks=acks)).error_code
        await eventually(lambda: alike(replicas(cluster)))
        assert all(each.log.durable_offset == 3 for each in replicas(cluster))
