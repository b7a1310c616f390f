"""Committed offsets, asked of a broker that coordinates the group no more, or does not yet."""

import asyncio
from pathlib import Path

import pytest

from barnabas.broker.handlers import offset_fetch
from barnabas.model.errors import Code
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tests.broker.clustered import Clustered, cluster_of
from tests.group_requests import commit_request, committed_request
from tests.waiting import eventually

COMMIT, FETCH = 8, 8  # versions


async def coordinator(cluster: Clustered, group: str = "g") -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    while True:
        answer = await cluster.ask(next(iter(cluster.brokers)), request, FindCoordinatorResponse)
        (found,) = answer.coordinators
        if not found.error_code and found.node_id in cluster.brokers:
            return found.node_id
        await asyncio.sleep(0.01)


async def commit(cluster: Clustered, offset: int) -> None:
    async def answered() -> int:
        answer = await cluster.ask(
            await coordinator(cluster),
            commit_request("g", {0: offset}),
            OffsetCommitResponse,
            COMMIT,
        )
        return answer.topics[0].partitions[0].error_code

    while await answered():
        await asyncio.sleep(0.01)


async def committed(cluster: Clustered, at: int) -> tuple[int, int]:
    """The error of the group, and the offset."""
    answer = await cluster.ask(at, committed_request("g"), OffsetFetchResponse, FETCH)
    (group,) = answer.groups
    offsets = [each.committed_offset for topic in group.topics for each in topic.partitions]
    return group.error_code, offsets[0] if offsets else -1


async def test_every_broker_knows_what_was_committed(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t")
        await commit(cluster, 7)
        for id_ in cluster.brokers:
            assert await committed(cluster, id_) == (0, 7)
            for version in (1, 5):
                request = OffsetFetchRequest(
                    group_id="g",
                    topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
                )
                answer = await cluster.ask(id_, request, OffsetFetchResponse, version)
                assert answer.error_code == 0
                assert answer.topics[0].partitions[0].committed_offset == 7


async def test_who_asks_while_the_coordinator_dies_is_answered_by_the_next(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t")
        await commit(cluster, 7)
        dying = await coordinator(cluster)
        other = next(id_ for id_ in cluster.brokers if id_ != dying)
        asked = [asyncio.ensure_future(committed(cluster, other)) for _ in range(3)]
        await cluster.kill(dying)
        asked += [asyncio.ensure_future(committed(cluster, other)) for _ in range(3)]
        assert [await each for each in asked] == [(0, 7)] * 6


async def test_where_nobody_coordinates_it_is_said_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_fetch, "MOVING_MS_MAX", 100)
    async with cluster_of(tmp_path, 2, {"offsets.topic.replication.factor": "1"}) as cluster:
        await cluster.create("t", replicas=2)
        await commit(cluster, 7)
        only = await coordinator(cluster)
        left = next(id_ for id_ in cluster.brokers if id_ != only)
        await cluster.kill(only)
        code, _ = await committed(cluster, left)
        assert code == Code.NOT_COORDINATOR
        await cluster.start(only)
        await eventually(lambda: cluster.leader("t") >= 0)
        await commit(cluster, 8)
        monkeypatch.undo()
        assert await committed(cluster, left) == (0, 8)
