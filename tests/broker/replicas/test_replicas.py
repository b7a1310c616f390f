"""Replicas come, go, lose their disks and move between them."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from barnabas.broker.controller.channels import ControllerChannels
from barnabas.broker.partition_errors import not_served
from barnabas.model.errors import Code
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from tests.broker.clustered import Clustered, cluster_of
from tests.broker.replicas.test_replication import alike, produce, replicas
from tests.waiting import eventually


def directories(root: Path, name: str) -> list[str]:
    return sorted(
        str(path.relative_to(root)) for path in root.glob(f"b*/**/{name}*") if path.is_dir()
    )


async def delete(cluster: Clustered, at: int, name: str) -> None:
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
    answer = await cluster.ask(at, request, DeleteTopicsResponse, 5)
    assert not answer.responses[0].error_code


async def test_logs_of_a_deleted_topic_go_and_its_name_can_be_used_again(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t")
        away = next(id_ for id_ in cluster.brokers if id_ != cluster.leader("t"))
        await produce(cluster, cluster.leader("t"), count=5)
        await eventually(lambda: alike(replicas(cluster)))
        await cluster.stop(away)
        here = next(iter(cluster.brokers))
        await delete(cluster, here, "t")
        await eventually(lambda: all(b.topics.get("t") is None for b in cluster.brokers.values()))
        await eventually(lambda: directories(tmp_path, "t-0") == [f"b{away}/t-0"])
        # Who was away does not bring it back, neither as what it was nor as the next of its name.
        await cluster.start(away)
        back = cluster.brokers[away]
        assert back.replicas is not None
        assert TopicPartition("t", 0) in back.logs.logs
        await back.replicas.strays.rename()
        assert not back.logs.logs
        assert "stray log renamed" in cluster.logs[away].getvalue()
        await cluster.create("t")
        leader = cluster.leader("t")
        assert (await produce(cluster, leader)).base_offset == 0
        await eventually(lambda: alike(replicas(cluster)))
        assert {each.log.end_offset for each in replicas(cluster)} == {1}


async def test_a_full_disk_that_cannot_rename_a_deleted_log_stops_no_other_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller's own broker has that disk: it sends itself StopReplica."""
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t")
        controller = cluster.controller()
        assert controller is not None
        full = cluster.brokers[controller]
        [log_directory] = full.logs.online()
        with monkeypatch.context() as patched:

            def refuse(old: str, new: str) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), old)

            patched.setattr(log_directory.logs._disk, "rename", refuse)
            await delete(cluster, controller, "t")
            said = cluster.logs[controller]
            await eventually(lambda: "logs not deleted" in said.getvalue())
            assert "No space left on device" in said.getvalue()
            assert full.replicas is not None
            await full.replicas.strays.rename()
            assert "stray log not renamed" in said.getvalue()
            assert TopicPartition("t", 0) in full.logs.logs
        await cluster.create("u")
        await eventually(lambda: cluster.partition(controller, "u").is_open)
        await full.replicas.strays.rename()
        assert TopicPartition("t", 0) not in full.logs.logs
        # The next topic of this name gets a log of its own.
        await cluster.create("t")
        assert (await produce(cluster, cluster.leader("t"))).base_offset == 0


async def move(cluster: Clustered, *to: int) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=list(to))
    topic = ReassignableTopic(name="t", partitions=[partition])
    request = AlterPartitionReassignmentsRequest(topics=[topic])
    answer = await cluster.ask(to[0], request, AlterPartitionReassignmentsResponse)
    assert not answer.error_code
    assert not answer.responses[0].partitions[0].error_code


async def test_a_replica_ends_though_the_controller_that_moved_it_died_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or its broker would tell clients of its last leader for ever."""
    real = ControllerChannels.send

    def send(
        self: ControllerChannels, broker: BrokerId, message: ProtocolMessage
    ) -> "asyncio.Future[None]":
        if not isinstance(message, StopReplicaRequest):
            return real(self, broker, message)
        never = asyncio.get_running_loop().create_future()
        never.set_result(None)
        return never

    monkeypatch.setattr(ControllerChannels, "send", send)
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t", replicas=2)
        leader = cluster.leader("t")
        await produce(cluster, leader, count=5)
        old = next(id_ for id_ in cluster.partition(leader, "t").replicas if id_ != leader)
        new = next(id_ for id_ in cluster.brokers if id_ not in (leader, old))
        left = cluster.partition(old, "t")
        await eventually(lambda: left.following is not None and left.log.end_offset == 5)
        await move(cluster, new, leader)
        await eventually(lambda: left.replicas == [new, leader])
        await eventually(lambda: left.following is None)
        await cluster.kill(leader)
        await eventually(lambda: left.leader == new)
        leads = cluster.partition(new, "t")
        await eventually(lambda: left.leader_epoch == leads.leader_epoch)
        broker = cluster.brokers[old]
        assert broker.replicas is not None
        assert TopicPartition("t", 0) in broker.logs.logs
        await broker.replicas.strays.rename()
        assert TopicPartition("t", 0) not in broker.logs.logs
        # It may come again, and begins again.
        await move(cluster, new, old)
        await eventually(lambda: sorted(cluster.partition(new, "t").in_sync) == sorted([new, old]))
        assert (await produce(cluster, new)).base_offset == 5
        await eventually(lambda: alike(replicas(cluster)))


async def test_others_lead_what_was_on_a_lost_disk(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t", 3)
        leader = cluster.leader("t")
        assert not (await produce(cluster, leader)).error_code
        # A second directory, so that the broker goes on without the first.
        await cluster.stop(leader)
        paths = f"{tmp_path}/b{leader},{tmp_path}/b{leader}-two"
        broker = cluster.make(leader, {"log.dirs": paths})
        await broker.join()
        await eventually(lambda: len(cluster.partition(leader, "t").in_sync) == 3)
        await cluster.create("u", 3)
        await eventually(
            lambda: all(p.log_directory for p in broker.topics.existing("u").partitions)
        )
        lost = next(
            log_directory
            for log_directory in broker.logs.log_directories
            if log_directory.path.endswith("two")
        )
        names = list(lost.logs.logs)
        assert names
        lost.lose("pulled out")
        others = [id_ for id_ in cluster.brokers if id_ != leader]
        for name in names:
            await eventually(lambda name=name: cluster.partition(others[0], *name).leader in others)  # type: ignore[misc]
            await eventually(
                lambda name=name: leader not in cluster.partition(others[0], *name).in_sync  # type: ignore[misc]
            )
        partition = cluster.partition(leader, *names[0])
        assert not_served(partition).code is Code.KAFKA_STORAGE_ERROR
        assert partition.leader in others
        if names[0].partition == 0:
            assert (await produce(cluster, leader, names[0].topic)).error_code
        assert not (await produce(cluster, cluster.leader("u"), "u")).error_code


async def test_a_followers_log_moves_between_its_disks_while_it_follows(tmp_path: Path) -> None:
    cluster = Clustered(tmp_path, {})
    try:
        for id_ in (1, 2):
            paths = f"{tmp_path}/b{id_},{tmp_path}/b{id_}-two"
            await cluster.make(id_, {"log.dirs": paths}).join()
        await cluster.create("t", replicas=2)
        leader = cluster.leader("t")
        follower = 3 - leader
        for _ in range(20):
            await produce(cluster, leader, count=50)
        partition = cluster.partition(follower, "t")
        assert partition.log_directory is not None
        to = next(
            v.path
            for v in cluster.brokers[follower].logs.log_directories
            if v is not partition.log_directory
        )
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=to, topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])]
                )
            ]
        )
        answer = await cluster.ask(follower, request, AlterReplicaLogDirsResponse)
        assert not answer.results[0].partitions[0].error_code
        while partition.log_directory.path != to:
            assert not (await produce(cluster, leader, count=10)).error_code
        await produce(cluster, leader, count=10)
        await eventually(lambda: alike(replicas(cluster)))
        assert len(cluster.partition(leader, "t").in_sync) == 2
    finally:
        await cluster.stop(*list(cluster.brokers))
