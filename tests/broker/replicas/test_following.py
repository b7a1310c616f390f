"""What a followed log needs before more can be fetched into it."""

import asyncio
from pathlib import Path

from barnabas.broker.replicas.following import FollowerReplica, truncate
from tests.broker.clustered import cluster_of
from tests.broker.replicas.test_replication import alike, produce, replicas, stop_fetching
from tests.waiting import eventually

TURNS = 20


async def test_a_log_is_truncated_after_the_sync_that_is_in_progress(tmp_path: Path) -> None:
    """A sync may write records again in its thread: those that were cut would come back."""
    async with cluster_of(tmp_path) as cluster:
        await cluster.create("t")
        leader = cluster.leader("t")
        for _ in range(3):
            await produce(cluster, leader)
        await eventually(lambda: alike(replicas(cluster)))
        id_ = next(each for each in cluster.brokers if each != leader)
        broker, partition = cluster.brokers[id_], cluster.partition(id_, "t")
        await stop_fetching(broker)
        directory, log = partition.log_directory, partition.log
        topic = broker.topics.existing("t")
        assert directory is not None
        assert partition.following is not None
        followed = FollowerReplica((topic.id, 0), partition, partition.following)
        async with directory.renaming:
            truncation = asyncio.ensure_future(truncate(broker, followed, log.epochs.latest, 2))
            for _ in range(TURNS):
                await asyncio.sleep(0)
            assert log.end_offset == 3
        await truncation
        assert log.end_offset == 2
