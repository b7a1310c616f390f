"""Followers pull: one fetcher per leader, with all partitions that are followed there.

In: partitions to follow, and to stop following. Out: fetchers that run.
Always: a slow or failed leader delays no partition of another leader.
Not here: what a fetcher does (fetcher.py).
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from barnabas.broker.context import BrokerContext
from barnabas.broker.replicas.fetcher import Fetcher
from barnabas.broker.replicas.following import FollowerReplica, Key
from barnabas.model.ids import BrokerId
from barnabas.replication.follower import Follower

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition
    from barnabas.broker.replicas.replica_cluster import ReplicaCluster
    from barnabas.broker.replicas.roles import Replicas
    from barnabas.broker.topic import Topics


class FetchersContext(BrokerContext, Protocol):
    """What this module needs of the broker."""

    topics: "Topics"
    replicas: "Replicas | None"


class Fetchers:
    """All fetchers of a broker, by leader."""

    def __init__(self, broker: FetchersContext, cluster: "ReplicaCluster") -> None:
        self.broker = broker
        self.cluster = cluster
        self._fetchers: dict[BrokerId, Fetcher] = {}
        self._leaders: dict[Key, BrokerId] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """The number of followed partitions."""
        return sum(map(len, self._fetchers.values()))

    def follow(self, topic_id: UUID, partition: "Partition", machine: Follower) -> None:
        """From now on; replaces an earlier leadership that was followed."""
        key = (topic_id, partition.name.partition)
        self.leave(key)
        fetcher = self._fetchers.get(machine.leader)
        if fetcher is None or fetcher.done:
            fetcher = self._fetchers[machine.leader] = Fetcher(machine.leader, self)
        self._leaders[key] = machine.leader
        fetcher.add(FollowerReplica(key, partition, machine))

    def leave(self, key: Key) -> None:
        leader = self._leaders.pop(key, None)
        if leader is not None and leader in self._fetchers:
            self._fetchers[leader].remove(key)

    def send_position(self, key: Key) -> None:
        leader = self._leaders.get(key)
        if leader is not None and leader in self._fetchers:
            self._fetchers[leader].send_position(key)

    def sweep(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.sweep()

    async def close(self) -> None:
        for fetcher in self._fetchers.values():
            await fetcher.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fetchers.clear()

    # For fetchers

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.broker.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fault("following failed", error)

    def fault(self, event: str, error: BaseException) -> None:
        from traceback import format_exception

        self.broker.counts.failures += 1
        self.broker.log.error(event, error=repr(error), trace="".join(format_exception(error)))
