"""What all pages share about the cluster: names, ends of logs, lag, findings, and their history.

Kept up to date off the request path: names every 30 s, the rest by a sweep a minute, in slices, so
that pages do not wait for it. A page asks for more only about the rows that it shows.
Always: what comes from the sweep says its age (`swept_ms`); a sweep that fails leaves the last
results, and the reason in `problem`.
"""

import asyncio
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from barnabas.client.admin.admin import Admin
from barnabas.client.admin.cluster import BrokerDetails
from barnabas.client.aio import open_cluster
from barnabas.client.cluster_rows import problem_rows
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.finding import Finding
from barnabas.client.groups.diagnosis import diagnose
from barnabas.client.groups.report import GroupReport, with_pace
from barnabas.client.groups.reporting import GroupSummary
from barnabas.client.groups.targets import KEPT_SUFFIXES
from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.client.tables import Row
from barnabas.client.transactions.report import TransactionsReport
from barnabas.client.transactions.transaction_rules import diagnose_transactions
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
HISTORY_MAX = 60  # sweeps
SLICE = 1_000  # partitions in one request of a sweep
EXPLAINED_MAX = 10  # groups with the most lag, examined by each sweep
TRANSACTIONS_PARTITIONS_MAX = 20_000
SMALL = 1_000  # topics: asking for all of them takes some milliseconds
GROUPS_MAX = 1_000
FRESH_MS = 1_500  # tabs that show the same thing share one look at it

T = TypeVar("T")


@dataclass
class Sweep:
    """The results of the last sweep. `ends`: the sum of a topic's end offsets, by minute."""

    at_ms: int = 0
    times: "array[int]" = field(default_factory=lambda: array("q"))
    totals: "array[int]" = field(default_factory=lambda: array("q"))  # of all topics, by minute
    ends: "dict[str, array[int]]" = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    groups: list[GroupSummary] = field(default_factory=list)
    findings: list[tuple[str, Finding]] = field(default_factory=list)  # with the group, or ""
    transactions: TransactionsReport = field(default_factory=TransactionsReport)


class ConsoleCluster:
    """One connection to the cluster for all tabs. `open` within the event loop that serves."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.cluster = open_cluster({"client.id": "barnabas-console", **settings}, {})
        self.admin = Admin(cluster=self.cluster)
        self.snapshot: MetadataSnapshot | None = None
        self.snapshot_ms = 0
        self.sweep = Sweep()
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
        if known is None or fresh or (age_ms > FRESH_MS and (small or self._stale)):
            await self.shared("names", self._read_names, 0 if fresh else FRESH_MS)
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
        now_ms = _now_ms()
        known = self._shared.get(key)
        if known is None or now_ms - known[0] > fresh_ms or _failed(known[1]):
            if len(self._shared) > 500:
                self._shared.clear()
            known = self._shared[key] = (now_ms, asyncio.ensure_future(look()))
        return await asyncio.shield(known[1])

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

    async def offsets(
        self, partitions: Iterable[TopicPartition], time_ms: int
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
                isolation_level=0,
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

    async def group_offsets(self) -> dict[str, dict[TopicPartition, Committed]]:
        """Committed offsets of the groups that the sweep knows, up to a limit."""
        summaries = self.sweep.groups[:GROUPS_MAX]

        async def look() -> dict[str, dict[TopicPartition, Committed]]:
            try:
                return await self.admin.groups_offsets(
                    [one.listing.group for one in summaries],
                    coordinators={one.listing.group: one.listing.coordinator for one in summaries},
                )
            except KafkaError:  # some may not be described: the page says nothing about them
                return {}

        if not summaries:
            return {}
        fresh_ms = FRESH_MS if len(summaries) <= 100 else 30_000
        found: dict[str, dict[TopicPartition, Committed]] = await self.shared(
            "group offsets", look, fresh_ms
        )
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
        """Ends of all logs, lag of all groups, findings."""
        view = await self.names(fresh=True)
        last = self.sweep
        sweep = Sweep(_now_ms(), last.times, last.totals, last.ends)
        everywhere = [
            TopicPartition(name, partition.number)
            for name, topic in view.topics.items()
            for partition in topic.partitions
        ]
        sums: dict[str, int] = dict.fromkeys(view.topics, 0)
        firsts: dict[str, int] = dict.fromkeys(view.topics, 0)
        for start in range(0, len(everywhere), SLICE):
            bounds = await self.bounds(everywhere[start : start + SLICE])
            for at, (first, end) in bounds.items():
                sums[at.topic] += end
                firsts[at.topic] += first
            await asyncio.sleep(0)
        _remember(sweep, sums)
        sweep.records = {name: sums[name] - firsts[name] for name in sums}
        summaries = await self.admin.group_summaries()
        sweep.groups = [one for one in summaries if not one.listing.group.endswith(KEPT_SUFFIXES)]
        for one in sorted(sweep.groups, key=lambda one: -(one.lag or 0))[:EXPLAINED_MAX]:
            if one.lag:
                sweep.findings += await self._explained(one.listing.group)
        if len(everywhere) <= TRANSACTIONS_PARTITIONS_MAX:
            try:
                sweep.transactions = await self.admin.transactions_report()
            except KafkaError:  # not authorized, or too old: the rest is still worth showing
                sweep.transactions = TransactionsReport()
            found = diagnose_transactions(sweep.transactions)
            sweep.findings += [("", finding) for finding in found]
        self.sweep = sweep
        return sweep

    async def _explained(self, group: str) -> list[tuple[str, Finding]]:
        try:
            return [(group, finding) for finding in diagnose(await self.report(group))]
        except KafkaError:  # it is gone, or may not be described
            return []

    def problems(self) -> list[Row]:
        """Partitions that are offline or under-replicated."""
        view = self.snapshot
        if view is None:
            return []
        return [dict(row) for row in self.derived("problems", lambda: problem_rows(view))]

    def last_rate(self, topic: str) -> float:
        """Between the last two sweeps."""
        rates = rates_between(self.sweep.times[-2:], self.sweep.ends.get(topic, array("q"))[-2:])
        return rates[-1] if rates else 0.0

    def topic_rates(self, topic: str) -> list[float]:
        """Records per second between sweeps, oldest first."""
        return rates_between(self.sweep.times, self.sweep.ends.get(topic, array("q")))

    def total_rates(self) -> list[float]:
        return rates_between(self.sweep.times, self.sweep.totals)


def rates_between(times: "array[int]", ends: "array[int]") -> list[float]:
    times = times[len(times) - len(ends) :]
    return [
        max(0, later - earlier) * 1000 / max(1, times[at + 1] - times[at])
        for at, (earlier, later) in enumerate(pairwise(ends))
    ]


def _remember(sweep: Sweep, sums: Mapping[str, int]) -> None:
    for gone in sweep.ends.keys() - sums.keys():
        del sweep.ends[gone]
    sweep.times.append(sweep.at_ms)
    sweep.totals.append(sum(sums.values()))
    for name, total in sums.items():
        sweep.ends.setdefault(name, array("q")).append(total)
    if len(sweep.times) > HISTORY_MAX:
        del sweep.times[0]
        del sweep.totals[0]
        for ends in sweep.ends.values():
            if len(ends) > HISTORY_MAX:
                del ends[0]


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _now_ms() -> int:
    return int(time.time() * 1000)
