"""DeleteRecords in a cluster: the answer comes when no replica has the records any more."""

import asyncio
from pathlib import Path

from barnabas.model.errors import Code
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.broker.clustered import Clustered, cluster_of
from tests.broker.replicas.test_replication import QUIET, produce, replicas, stop_fetching, word_of
from tests.waiting import eventually


async def delete(
    cluster: Clustered, *offsets: int, timeout_ms: int = 20_000
) -> list[tuple[int, int]]:
    """The low watermark and the error code, for each."""
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="t",
                partitions=[DeleteRecordsPartition(partition_index=0, offset=o) for o in offsets],
            )
        ],
        timeout_ms=timeout_ms,
    )
    response = await cluster.ask(cluster.leader("t"), request, DeleteRecordsResponse)
    return [(each.low_watermark, each.error_code) for each in response.topics[0].partitions]


def waits(cluster: Clustered) -> bool:
    leading = cluster.partition(cluster.leader("t"), "t").leading
    return leading is not None and bool(leading.start_waiters)


async def test_the_answer_comes_when_every_replica_begins_there(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t")
        await produce(cluster, cluster.leader("t"), count=10)
        assert await delete(cluster, 4) == [(4, 0)]
        assert [each.log.start_offset for each in replicas(cluster)] == [4, 4, 4]
        assert await delete(cluster, 3, 6, 11) == [(4, 0), (6, 0), (-1, Code.OFFSET_OUT_OF_RANGE)]
        assert await delete(cluster, -1) == [(10, 0)]
        assert [each.log.start_offset for each in replicas(cluster)] == [10, 10, 10]
        assert not waits(cluster)


async def test_who_asks_waits_no_longer_than_it_said_and_not_for_the_dead(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, settings=QUIET) as cluster:
        await cluster.create("t")
        leader = cluster.leader("t")
        await produce(cluster, leader, count=10)
        silent = next(id_ for id_ in cluster.brokers if id_ != leader)
        await stop_fetching(cluster.brokers[silent])
        low_watermark, code = (await delete(cluster, 4, timeout_ms=50))[0]
        assert (low_watermark, code) == (0, Code.REQUEST_TIMED_OUT)
        assert not waits(cluster)
        assert "still starts at offset 0" in cluster.logs[leader].getvalue()
        waiting = asyncio.ensure_future(delete(cluster, 5))
        await eventually(lambda: waits(cluster))
        await cluster.kill(silent)
        assert await waiting == [(5, 0)]
        assert [each.log.start_offset for each in replicas(cluster)] == [5, 5]
        await cluster.start(silent)
        await eventually(lambda: cluster.partition(silent, "t").log.start_offset == 5)


async def test_a_waiting_deletion_is_answered_when_the_leader_changes(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, settings=QUIET) as cluster:
        await cluster.create("t")
        leader = cluster.leader("t")
        await produce(cluster, leader, count=10)
        follower = next(id_ for id_ in cluster.brokers if id_ != leader)
        await stop_fetching(cluster.brokers[follower])
        waiting = asyncio.ensure_future(delete(cluster, 4))
        await eventually(lambda: waits(cluster))
        here = cluster.brokers[leader].replicas
        assert here is not None
        await here.lead_and_follow(word_of(cluster, leader, follower))
        assert await waiting == [(-1, Code.NOT_LEADER_OR_FOLLOWER)]
