"""A look at everything once a minute: ends of all logs, lag of all groups, disks, findings.

In: the cluster's requests, in slices, so that pages do not wait for it. Out: a `Sweep`, and in it
the history of the last hour: the sum of each topic's end offsets, by minute.
Always: what is too much for one page is known from here only, and pages say its age (`at_ms`).
"""

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from barnabas.client.admin.cluster import LogDir
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.finding import Finding
from barnabas.client.groups.diagnosis import diagnose
from barnabas.client.groups.reporting import GroupSummary, group_summary
from barnabas.client.groups.targets import KEPT_SUFFIXES
from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.client.transactions.report import TransactionsReport
from barnabas.client.transactions.transaction_rules import diagnose_transactions
from barnabas.console.topic_names import DEAD_LETTER_NAME
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.console.cluster_state import ConsoleCluster

HISTORY_MAX = 60  # sweeps
SLICE = 1_000  # partitions in one request
GROUPS_SLICE = 100
EXPLAINED_MAX = 10  # groups with the most lag, examined by each sweep
PARTITIONS_FEW = 2_000  # their stable ends are asked for, all of them
TRANSACTIONS_MAX = 1_000
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
OFFSETS_MAX = 100_000  # committed offsets that are kept for pages

Bounds = dict[TopicPartition, tuple[int, int]]
Offsets = dict[str, dict[TopicPartition, Committed]]


@dataclass
class Sweep:
    """`ends`: the sum of a topic's end offsets, by minute."""

    at_ms: int = 0
    times: "array[int]" = field(default_factory=lambda: array("q"))
    totals: "array[int]" = field(default_factory=lambda: array("q"))  # of all topics, by minute
    ends: "dict[str, array[int]]" = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    letters: int = 0  # records in topics named like dead-letter topics, also those sent back
    groups: list[GroupSummary] = field(default_factory=list)
    offsets: Offsets = field(default_factory=dict)  # committed, of these groups
    readers: Mapping[str, int] = field(default_factory=dict)  # groups with offsets in a topic
    findings: list[tuple[str, Finding]] = field(default_factory=list)  # with the group, or ""
    transactions: TransactionsReport = field(default_factory=TransactionsReport)
    log_dirs: list[LogDir] | None = None  # without their replicas; None: may not be described
    bytes: Mapping[str, int] = field(default_factory=dict)  # of a topic, with all its replicas
    replicas: Mapping[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    """Of a broker's log directory: how many replicas, and their bytes."""

    def last_rate(self, topic: str) -> float:
        """Between the last two sweeps."""
        rates = rates_between(self.times[-2:], self.ends.get(topic, array("q"))[-2:])
        return rates[-1] if rates else 0.0

    def topic_rates(self, topic: str) -> list[float]:
        """Records per second between sweeps, oldest first."""
        return rates_between(self.times, self.ends.get(topic, array("q")))

    def total_rates(self) -> list[float]:
        return rates_between(self.times, self.totals)


async def sweep_cluster(state: "ConsoleCluster", last: Sweep) -> Sweep:
    view = await state.names(fresh=True)
    sweep = Sweep(int(time.time() * 1000), last.times, last.totals, last.ends)
    everywhere = [
        TopicPartition(name, partition.number)
        for name, topic in view.topics.items()
        for partition in topic.partitions
    ]
    bounds: Bounds = {}
    for start in range(0, len(everywhere), SLICE):
        bounds |= await state.bounds(everywhere[start : start + SLICE])
        await asyncio.sleep(0)
    sums: dict[str, int] = dict.fromkeys(view.topics, 0)
    firsts: dict[str, int] = dict.fromkeys(view.topics, 0)
    for at, (first, end) in bounds.items():
        sums[at.topic] += end
        firsts[at.topic] += first
    _remember(sweep, sums)
    sweep.records = {name: sums[name] - firsts[name] for name in sums}
    sweep.letters = sum(
        many for name, many in sweep.records.items() if DEAD_LETTER_NAME.search(name)
    )
    await _sweep_groups(state, sweep, view, bounds)
    await _sweep_disks(state, sweep)
    for one in sorted(sweep.groups, key=lambda one: -(one.lag or 0))[:EXPLAINED_MAX]:
        if one.lag:
            sweep.findings += await _explained(state, one.listing.group)
    try:
        sweep.transactions = await transactions_report(state)
    except KafkaError:  # not authorized, or too old: the rest is still worth showing
        sweep.transactions = TransactionsReport()
    found = diagnose_transactions(sweep.transactions)
    sweep.findings += [("", finding) for finding in found]
    return sweep


async def transactions_report(state: "ConsoleCluster") -> TransactionsReport:
    """Where readers of committed records wait; in a large cluster only in the topics of open
    transactions, because the ends of all partitions would be asked for again."""
    view = await state.names()
    if sum(len(topic.partitions) for topic in view.topics.values()) <= PARTITIONS_FEW:
        return await state.admin.transactions_report()
    listed = await state.admin.list_transactions(states=OPEN_STATES)
    described = await state.admin.describe_transactions(
        [each.transactional_id for each in listed[:TRANSACTIONS_MAX]],
        coordinators={each.transactional_id: each.coordinator for each in listed},
    )
    topics = sorted({at.topic for each in described.values() for at in each.partitions})
    if not topics:
        return TransactionsReport()
    return await state.admin.transactions_report(topics)


async def _sweep_groups(
    state: "ConsoleCluster", sweep: Sweep, view: MetadataSnapshot, bounds: Bounds
) -> None:
    listed = await state.admin.groups()
    listed = [one for one in listed if one.group and not one.group.endswith(KEPT_SUFFIXES)]
    readers: Counter[str] = Counter()
    kept = 0
    for start in range(0, len(listed), GROUPS_SLICE):
        part = listed[start : start + GROUPS_SLICE]
        asked = {one.group: one.coordinator for one in part}
        described = await state.admin.describe_groups(asked, coordinators=asked)
        offsets = await state.admin.groups_offsets(asked, coordinators=asked)
        for one in part:
            committed = offsets.get(one.group, {})
            sweep.groups.append(
                group_summary(one, described.get(one.group), committed, view, bounds)
            )
            readers.update({at.topic for at in committed})
            kept += len(committed)
            if kept <= OFFSETS_MAX:
                sweep.offsets[one.group] = committed
        await asyncio.sleep(0)
    sweep.readers = readers


async def _sweep_disks(state: "ConsoleCluster", sweep: Sweep) -> None:
    try:
        dirs = await state.admin.log_dirs()
    except KafkaError:  # not authorized
        return
    sizes: Counter[str] = Counter()
    for one in dirs:
        for replica in one.replicas:
            sizes[replica.at.topic] += replica.size
        held = sum(replica.size for replica in one.replicas)
        sweep.replicas = {**sweep.replicas, (one.broker, one.path): (len(one.replicas), held)}
    sweep.bytes = sizes
    sweep.log_dirs = [one._replace(replicas=[]) for one in dirs]


async def _explained(state: "ConsoleCluster", group: str) -> list[tuple[str, Finding]]:
    try:
        return [(group, finding) for finding in diagnose(await state.report(group))]
    except KafkaError:  # it is gone, or may not be described
        return []


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
