"""What all pages share about the cluster: names, ends of logs, lag, findings, and their history.

Kept up to date off the request path: names every 30 s, the rest by a sweep a minute (sweep.py). A
page asks for more only about the rows that it shows.
Always: a sweep that fails leaves the last results, and the reason in `problem`.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from barnabas.client.admin.admin import Admin
from barnabas.client.admin.cluster import BrokerDetails
from barnabas.client.aio import open_cluster
from barnabas.client.client_rates import ClientLooks
from barnabas.client.cluster_rows import problem_rows
from barnabas.client.groups.report import GroupReport, with_pace
from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.client.tables import Row
from barnabas.console.sweep import Offsets, Sweep, sweep_cluster
from barnabas.model.errors import KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

NAMES_S = 30
SWEEP_S = 60
FIRST_S = 10
SMALL = 1_000  # topics: asking for all of them takes some milliseconds
GROUPS_FEW = 100
STALE_MS = 10_000
FRESH_MS = 1_500  # tabs that show the same thing share one look at it

T = TypeVar("T")


class ConsoleCluster:
    """One connection to the cluster for all tabs. `open` within the event loop that serves."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.cluster = open_cluster({"client.id": "barnabas-console", **settings}, {})
        self.admin = Admin(cluster=self.cluster)
        self.snapshot: MetadataSnapshot | None = None
        self.snapshot_ms = 0
        self.sweep = Sweep()
        self.client_looks = ClientLooks()
        self.problem = ""
        self.started_ms = _now_ms()
        self._shared: dict[str, tuple[int, asyncio.Task[Any]]] = {}
        self._reports: dict[str, tuple[int, GroupReport]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._derived: dict[str, Any] = {}
        self._stale = False  # a leader has moved, or a topic is new

    def open(self) -> None:
        self._tasks = [
            asyncio.create_task(self._every(NAMES_S, self._read_names)),
            asyncio.create_task(self._every(SWEEP_S, self.swept)),
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cluster.close()

    async def _every(self, seconds: float, look: Any) -> None:
        while True:
            try:
                await look()
                self.problem = ""
            except (KafkaError, OSError) as problem:
                self.problem = str(getattr(problem, "detail", problem))
            early = look == self.swept and len(self.sweep.times) == 1  # so that rates are known
            await asyncio.sleep(FIRST_S if early else seconds)

    # --- names ---

    async def names(self, *, fresh: bool = False) -> MetadataSnapshot:
        """All topics, at most 30 s old; of a small cluster, as new as a look at them is cheap."""
        age_ms = _now_ms() - self.snapshot_ms
        known = self.snapshot
        small = known is not None and len(known.topics) <= SMALL
        if known is None or fresh or (age_ms > FRESH_MS and small):
            await self.shared("names", self._read_names, 0 if fresh else FRESH_MS)
        elif self._stale and age_ms > STALE_MS:  # in a large cluster no page waits for it
            self.share("names", self._read_names, STALE_MS)
        assert self.snapshot is not None
        return self.snapshot

    async def _read_names(self) -> None:
        self.snapshot = await self.admin.topics()
        self.snapshot_ms = _now_ms()
        self._stale = False
        self._derived.clear()

    def derived(self, key: str, make: Callable[[], T]) -> T:
        """What is worked out from the names, once per snapshot."""
        if key not in self._derived:
            self._derived[key] = make()
        found: T = self._derived[key]
        return found

    def forget(self) -> None:
        """After a change: the next look asks again."""
        self._shared.clear()
        self._stale = True

    async def shared(self, key: str, look: Any, fresh_ms: int = FRESH_MS) -> Any:
        """The result of `look`, asked for once by all tabs within `fresh_ms`."""
        return await asyncio.shield(self.share(key, look, fresh_ms))

    def share(self, key: str, look: Any, fresh_ms: int) -> asyncio.Task[Any]:
        now_ms = _now_ms()
        known = self._shared.get(key)
        if known is None or now_ms - known[0] > fresh_ms or _failed(known[1]):
            if len(self._shared) > 500:
                self._shared.clear()
            known = self._shared[key] = (now_ms, asyncio.ensure_future(look()))
        return known[1]

    async def brokers(self) -> dict[int, BrokerDetails]:
        found: dict[int, BrokerDetails] = await self.shared("brokers", self.admin.describe_brokers)
        return found

    # --- offsets ---

    async def bounds(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """First and end offset of partitions that have a leader."""
        wanted = list(partitions)
        starts = await self.offsets(wanted, EARLIEST)
        ends = await self.offsets(wanted, LATEST)
        return {at: (starts[at], ends[at]) for at in wanted if at in starts and at in ends}

    async def readable(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """As `bounds`, up to where the console reads: records of open transactions are not read,
        and a reader would wait for them."""
        committed_only = self.cluster.config.isolation_level == "read_committed"
        wanted = list(partitions)
        starts = await self.offsets(wanted, EARLIEST)
        ends = await self.offsets(wanted, LATEST, committed_only=committed_only)
        return {at: (starts[at], ends[at]) for at in wanted if at in starts and at in ends}

    async def offsets(
        self, partitions: Iterable[TopicPartition], time_ms: int, *, committed_only: bool = False
    ) -> dict[TopicPartition, int]:
        """By the leaders of the last metadata: one request per leader. What fails is left out."""
        view = await self.names()
        by_leader: dict[int, dict[str, list[int]]] = {}
        for at in partitions:
            topic = view.topics.get(at.topic)
            if topic is None or at.partition >= len(topic.partitions):
                continue
            leader = topic.partitions[at.partition].leader
            if leader in view.brokers:
                by_leader.setdefault(leader, {}).setdefault(at.topic, []).append(at.partition)
        found: dict[TopicPartition, int] = {}
        for leader, topics in by_leader.items():
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=1 if committed_only else 0,
                topics=[
                    ListOffsetsTopic(
                        name=name,
                        partitions=[
                            ListOffsetsPartition(partition_index=number, timestamp=time_ms)
                            for number in numbers
                        ],
                    )
                    for name, numbers in topics.items()
                ],
                timeout_ms=self.cluster.timeout_ms,
            )
            try:
                connection = await self.cluster.broker(leader)
                answer = await connection.call(
                    request, ListOffsetsResponse, timeout_ms=self.cluster.timeout_ms
                )
            except Retriable:  # it is down: what others lead is still worth showing
                self._stale = True
                continue
            for of_topic in answer.topics:
                for one in of_topic.partitions:
                    if one.error_code:
                        self._stale = True
                    else:
                        at = TopicPartition(of_topic.name, one.partition_index)
                        found[at] = one.offset
        return found

    # --- groups ---

    async def group_offsets(self) -> Offsets:
        """Committed offsets of the groups: of a few groups those of now, else the sweep's."""
        summaries = self.sweep.groups
        if len(summaries) > GROUPS_FEW:
            return self.sweep.offsets

        async def look() -> Offsets:
            try:
                return await self.admin.groups_offsets(
                    [one.listing.group for one in summaries],
                    coordinators={one.listing.group: one.listing.coordinator for one in summaries},
                )
            except KafkaError:  # some may not be described: the page says nothing about them
                return {}

        if not summaries:
            return {}
        found: Offsets = await self.shared("group offsets", look)
        return found

    async def report(self, group: str) -> GroupReport:
        """A report of a group, with the rates since an earlier look if no broker reports them."""

        async def look() -> GroupReport:
            report = await self.admin.group_report(group)
            now_ms, earlier = _now_ms(), self._reports.get(group)
            if earlier is None or now_ms - earlier[0] > 60_000:
                if len(self._reports) > 100:
                    self._reports.clear()
                self._reports[group] = (now_ms, report)
            return report if earlier is None else with_pace(report, earlier[1], now_ms - earlier[0])

        found: GroupReport = await self.shared(f"group:{group}", look)
        return found

    # --- the sweep ---

    async def swept(self) -> Sweep:
        """Look at everything."""
        self.sweep = await sweep_cluster(self, self.sweep)
        return self.sweep

    def problems(self) -> list[Row]:
        """Partitions that are offline or under-replicated."""
        view = self.snapshot
        if view is None:
            return []
        return [dict(row) for row in self.derived("problems", lambda: problem_rows(view))]


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _now_ms() -> int:
    return int(time.time() * 1000)
