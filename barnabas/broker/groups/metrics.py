"""Groups for Prometheus: rebalances by cause, phases, members, lag, lag in time, time to catch up.

In: the coordinator's rebalance histories, offsets and rates. Out: metric families.
Always: bounded: groups and partitions beyond a limit are counted, not shown; timestamps are read in
a thread.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.groups.lag import GroupPosition, unread_since_ms
from barnabas.broker.groups.rates import Rate, end_offset
from barnabas.broker.topic import Topics
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.history.statistics import SECONDS, Durations
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.subscription import CONSUMER, partitions_of
from barnabas.model.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.groups.coordination import Coordination
    from barnabas.coordinators.groups.state import Group

GROUPS_MAX = 500
PARTITIONS_MAX = 2_000


class Lag(NamedTuple):
    """How far a group is behind in one partition. `seconds`: since the first unread record."""

    group: str
    topic: str
    partition: int
    records: int
    seconds: float | None
    catch_up_seconds: float | None


class GroupMetrics(NamedTuple):
    """All groups at one moment, up to the limits."""

    total: int
    sizes: list[tuple[str, int, int]]  # group, members, generation
    lags: list[Lag]
    left_out: int
    no_commit_yet: dict[str, int]  # group to partitions


async def measure(groups: "Coordination", topics: Topics) -> GroupMetrics | None:
    """None while the groups are loading."""
    try:
        shards = groups.shards()
    except KafkaError:
        return None
    live = [(shard, id_) for shard in shards for id_ in shard.live()]
    idle = [(shard, id_) for shard in shards for id_ in shard.offsets.by_group]
    ids = list({id_: shard for shard, id_ in (*live, *idle)}.items())
    sizes: list[tuple[str, int, int]] = []
    places: list[GroupPosition] = []
    no_commit_yet: dict[str, int] = {}
    left_out = max(0, len(ids) - GROUPS_MAX)
    for id_, shard in ids[:GROUPS_MAX]:
        group = shard.group(id_)
        if group is None:
            continue
        sizes.append((id_, group.size, group.generation))
        offsets = {(topic, number): value for topic, number, value in shard.offsets.of_group(id_)}
        no_commit_yet[id_] = 0
        for topic, partition in dict.fromkeys((*offsets, *_assigned(topics, group))):
            end = end_offset(topics, topic, partition)
            if end is None:
                continue
            if (topic, partition) in offsets:
                committed = offsets[topic, partition].offset
            else:  # the whole log: its members may have read none of it
                committed = topics.existing(topic).partitions[partition].log.start_offset
                no_commit_yet[id_] += committed < end
            if len(places) < PARTITIONS_MAX:
                places.append(GroupPosition(id_, topic, partition, committed, end))
            else:
                left_out += 1
    lags = await _lags(groups, topics, places)
    return GroupMetrics(len(ids), sizes, lags, left_out, no_commit_yet)


def _assigned(topics: Topics, group: "Group") -> Iterator[tuple[str, int]]:
    """The assignments of the members; none for members that are not consumers."""
    if isinstance(group, ShareGroup):
        return  # it has no committed offsets
    if isinstance(group, ConsumerGroup):
        for topic_id, number in group.stored.owners:
            topic = topics.by_id(topic_id)
            if topic is not None:
                yield topic.name, number
    elif group.type == "streams":
        for each in group.stored.members.values():
            yield from group.read_partitions(each.assigned.active)
    elif group.members.protocol_type == CONSUMER:
        for member in group.members.by_id.values():
            yield from partitions_of(member.assignment) or ()


async def _lags(groups: "Coordination", topics: Topics, places: list[GroupPosition]) -> list[Lag]:
    now = groups.now()
    times = await unread_since_ms(topics, places)
    lags = []
    for (group, topic, partition, committed, end), unread_ms in zip(places, times, strict=True):
        records = max(0, end - committed)
        rate = groups.pace.of((group, topic, partition), committed, end, now)
        seconds: float | None = 0.0
        if records:
            seconds = None if unread_ms is None else max(0, now.wall_ms - unread_ms) / 1_000
        lags.append(Lag(group, topic, partition, records, seconds, catch_up_seconds(records, rate)))
    return lags


def catch_up_seconds(records: int, rate: Rate | None) -> float | None:
    """At the rate of the last minute; None if there is no rate, or the group never catches up."""
    if not records:
        return 0.0
    if rate is None or rate.consumed <= rate.produced or rate.ms <= 0:
        return None
    return records * rate.ms / 1_000 / (rate.consumed - rate.produced)


def families(groups: "Coordination", figures: GroupMetrics) -> Iterator[Any]:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    statistics = groups.rebalance_statistics
    rebalances = CounterMetricFamily(
        "barnabas_group_rebalances", "Rebalances by cause.", labels=["cause"]
    )
    for kind, count in statistics.rebalances.items():
        rebalances.add_metric([kind.name.lower()], count)
    yield rebalances
    yield CounterMetricFamily(
        "barnabas_group_rebalances_overtaken",
        "Rebalances that were interrupted by another rebalance.",
        statistics.overtaken,
    )
    phases = HistogramMetricFamily(
        "barnabas_group_rebalance_seconds", "How long rebalances took.", labels=["phase"]
    )
    phases.add_metric(["join"], _buckets(statistics.join), statistics.join.sum_s)
    phases.add_metric(["sync"], _buckets(statistics.sync), statistics.sync.sum_s)
    yield phases
    yield GaugeMetricFamily("barnabas_groups", "Groups with members or offsets.", figures.total)
    members = GaugeMetricFamily("barnabas_group_members", "Members.", labels=["group"])
    generation = GaugeMetricFamily(
        "barnabas_group_generation", "Generation, or epoch.", labels=["group"]
    )
    for group, size, number in figures.sizes:
        members.add_metric([group], size)
        generation.add_metric([group], number)
    yield from (members, generation)
    yield from _lag_families(figures.lags)
    no_commit_yet = GaugeMetricFamily(
        "barnabas_group_no_commit_yet",
        "Assigned partitions without a committed offset; all their records are lag.",
        labels=["group"],
    )
    for group, partitions in figures.no_commit_yet.items():
        no_commit_yet.add_metric([group], partitions)
    yield no_commit_yet
    yield GaugeMetricFamily(
        "barnabas_group_left_out",
        f"Groups and partitions beyond {GROUPS_MAX} and {PARTITIONS_MAX}, not shown here.",
        figures.left_out,
    )


def _lag_families(lags: list[Lag]) -> Iterator[Any]:
    from prometheus_client.core import GaugeMetricFamily

    labels = ["group", "topic", "partition"]
    records = GaugeMetricFamily("barnabas_group_lag", "Unread records.", labels=labels)
    seconds = GaugeMetricFamily(
        "barnabas_group_lag_seconds", "Age of the first unread record.", labels=labels
    )
    catch_up = GaugeMetricFamily(
        "barnabas_group_catch_up_seconds",
        "Time to read all, at the pace of the last minute; +Inf: never.",
        labels=labels,
    )
    for lag in lags:
        values = [lag.group, lag.topic, str(lag.partition)]
        records.add_metric(values, lag.records)
        if lag.seconds is not None:
            seconds.add_metric(values, lag.seconds)
        never = float("inf") if lag.catch_up_seconds is None else lag.catch_up_seconds
        catch_up.add_metric(values, never)
    yield from (records, seconds, catch_up)


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    total = 0
    found: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, SECONDS), "+Inf"), durations.counts, strict=True):
        total += count
        found.append((bound, total))
    return found
