"""Collects a report of one group, or one line for every group.

Flows over `Net`, with the requests of an Admin.
Always: a deleted topic removes only its own partitions from a report; the age of unread records is
looked up for the partitions with the most of them, up to a limit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.groups.answers import Description
from barnabas.client.groups.report import (
    SHARE,
    ConsumptionRate,
    GroupListing,
    GroupReport,
    MemberReport,
    PartitionReport,
)
from barnabas.client.groups.share_partitions import share_partitions
from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.client.transactions.report import TransactionsReport
from barnabas.client.transactions.reporting import StableEnd, TransactionReports, with_readers
from barnabas.model.errors import InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.describe_group_history import (
    GroupHistory,
    GroupHistoryMember,
    GroupHistoryPartition,
)
from barnabas.wire.messages.list_offsets import EARLIEST

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin

TIMES_MAX = 20  # each costs a batch over the network


class GroupSummary(NamedTuple):
    """A group in a list, with its number of members and its lag."""

    listing: GroupListing
    members: int
    lag: int | None


class _Bounds(NamedTuple):
    start: int
    end: int
    stable: int


class GroupReports:
    """Builds reports from the requests of `admin`."""

    def __init__(self, admin: "Admin", cluster: ClusterClient) -> None:
        self._admin = admin
        self._cluster = cluster

    async def report(self, group: str) -> GroupReport:
        """The report of a group; GROUP_ID_NOT_FOUND if there is none."""
        described = await self._admin.describe_group(group)
        committed = await self._admin.group_offsets(group)
        history = (await self._admin.group_histories([group])).get(group)
        owners = {at: member.id for member in described.members for at in member.owned}
        if described.type == SHARE:  # a partition has several
            owners = {}
        topics = {at.topic for at in (*committed, *owners)}
        topics.update(topic for member in described.members for topic in member.topics)
        view = await self._existing(topics)
        wanted = _subscribed(described, view)
        bounds = await self._bounds(view, (*committed, *owners, *wanted))
        places = {
            at: max(committed[at].offset, bound.start) if at in committed else bound.start
            for at, bound in bounds.items()
        }
        first_unread = {at: place for at, place in places.items() if place < bounds[at].end}
        known = _partitions_by_id(history)
        times = {
            at: each.unread_since_ms for at, each in known.items() if each.unread_since_ms >= 0
        }
        unknown = {at: offset for at, offset in first_unread.items() if at not in times}
        times |= await self._admin.times_at(_most_behind(unknown, bounds))
        now_ms = self._cluster.net.wall_ms() if history is None else history.now_ms
        return GroupReport(
            group=group,
            state=described.state,
            type=described.type,
            assignor=described.assignor,
            coordinator=await self._coordinator(group),
            generation=_generation(described, history),
            protocol_type=described.protocol_type,
            members=_with_history(described.members, history),
            partitions=_with_owners(
                owners,
                (
                    _partition(at, committed.get(at), bound, known.get(at), now_ms, times.get(at))
                    for at, bound in sorted(bounds.items())
                ),
            ),
            rebalances=() if history is None else tuple(history.rebalances),
            notes=() if history is None else tuple(history.notes),
            has_history=history is not None,
            history_since_ms=None if history is None or history.since_ms < 0 else history.since_ms,
            now_ms=now_ms,
            topic_partitions={
                name: len(topic.partitions) for name, topic in sorted(view.topics.items())
            },
            transactions=await self._transactions(described, committed, bounds),
            subtopologies=described.subtopologies,
            shares=await share_partitions(self._cluster, group) if described.type == SHARE else (),
        )

    async def summaries(self) -> list[GroupSummary]:
        """Every group, by name."""
        listed = await self._admin.groups()
        asked = {listing.group: listing.coordinator for listing in listed if listing.group}
        described = await self._admin.describe_groups(asked, coordinators=asked)
        offsets = await self._admin.groups_offsets(asked, coordinators=asked)
        topics = {at.topic for committed in offsets.values() for at in committed}
        members = [member for group in described.values() for member in group.members]
        topics.update(topic for member in members for topic in member.topics)
        view = await self._existing(topics)
        places = {at for committed in offsets.values() for at in committed}
        places.update(at for group in described.values() for at in _subscribed(group, view))
        bounds = await self._bounds(view, places)
        known = {at: (bound.start, bound.end) for at, bound in bounds.items()}
        return [
            group_summary(each, described.get(each.group), offsets.get(each.group, {}), view, known)
            for each in listed
        ]

    async def _coordinator(self, group: str) -> str:
        id_ = await self._cluster.coordinator_id(group)
        broker = (await self._cluster.view()).brokers.get(id_)
        return str(id_) if broker is None else f"{id_} ({broker.address})"

    async def _existing(self, topics: Iterable[str]) -> MetadataSnapshot:
        """The topics that exist; an invalid name, such as a regular expression, does not."""
        wanted = sorted(topic for topic in topics if not topic.startswith("/"))
        return await self._cluster.retrying(lambda: self._cluster.view_of(wanted))

    async def _bounds(
        self, view: MetadataSnapshot, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, _Bounds]:
        there = {
            TopicPartition(name, partition.number)
            for name, topic in view.topics.items()
            for partition in topic.partitions
            if partition.leader >= 0
        }
        wanted = sorted(set(partitions) & there)
        if not wanted:
            return {}
        starts = await self._admin.offsets(dict.fromkeys(wanted, EARLIEST))
        ends = await TransactionReports(self._admin, self._cluster).stable_ends(wanted)
        return {at: _Bounds(starts[at].offset, ends[at].end, ends[at].stable) for at in wanted}

    async def _transactions(
        self,
        described: Description,
        committed: Mapping[TopicPartition, Committed],
        bounds: Mapping[TopicPartition, _Bounds],
    ) -> TransactionsReport:
        """Those that are open where the group reads; none if we may not look at transactions."""
        reports = TransactionReports(self._admin, self._cluster)
        ends = {at: StableEnd(bound.stable, bound.end) for at, bound in bounds.items()}
        try:
            report = await reports.held(ends)
        except InvalidRequest:  # not authorized: the group is more than its transactions
            return TransactionsReport()
        group = described.group
        held = await reports.with_positions(report.held, {group: committed})
        held = with_readers(held, await reports.waiting(held), {group: described.members})
        return replace(report, held=held)


def _subscribed(described: Description | None, view: MetadataSnapshot) -> list[TopicPartition]:
    """The partitions that the members read or subscribe to: in a rebalance no member has
    partitions.
    """
    if described is None:
        return []
    wanted = {topic for member in described.members for topic in member.topics}
    wanted &= view.topics.keys()
    numbered = [
        TopicPartition(name, partition.number)
        for name in sorted(wanted)
        for partition in view.topics[name].partitions
    ]
    return [*numbered, *(at for member in described.members for at in member.owned)]


def group_summary(
    listing: GroupListing,
    described: Description | None,
    committed: Mapping[TopicPartition, Committed],
    view: MetadataSnapshot,
    bounds: Mapping[TopicPartition, tuple[int, int]],
) -> GroupSummary:
    """`bounds`: first and end offset. A partition without a committed offset is unread as a whole,
    as in a report."""
    places: dict[TopicPartition, Committed | None] = dict.fromkeys(_subscribed(described, view))
    places.update(committed)
    behind = [
        given.lag
        if given is not None and given.lag >= 0
        else max(0, bounds[at][1] - (bounds[at][0] if given is None else given.offset))
        for at, given in places.items()
        if at in bounds
    ]
    if described is not None:
        listing = listing._replace(state=described.state, type=described.type)
    members = 0 if described is None else len(described.members)
    return GroupSummary(listing, members, sum(behind) if behind else None)


def _most_behind(
    first_unread: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, _Bounds]
) -> dict[TopicPartition, int]:
    by_lag = sorted(first_unread, key=lambda at: first_unread[at] - bounds[at].end)
    return {at: first_unread[at] for at in by_lag[:TIMES_MAX]}


def _generation(described: Description, history: GroupHistory | None) -> int | None:
    if described.epoch is not None:
        return described.epoch
    return None if history is None else history.generation


def _partitions_by_id(history: GroupHistory | None) -> dict[TopicPartition, GroupHistoryPartition]:
    if history is None:
        return {}
    return {TopicPartition(each.topic, each.partition): each for each in history.partitions}


def _with_history(
    members: tuple[MemberReport, ...], history: GroupHistory | None
) -> tuple[MemberReport, ...]:
    known: dict[str, GroupHistoryMember] = {}
    if history is not None:
        known = {each.member_id: each for each in history.members}
    return tuple(
        replace(
            member,
            session_timeout_ms=known[member.id].session_timeout_ms,
            rebalance_timeout_ms=known[member.id].rebalance_timeout_ms,
            silent_ms=known[member.id].silent_ms,
            awaited=known[member.id].awaited,
            protocols=tuple(known[member.id].protocols),
        )
        if member.id in known
        else member
        for member in members
    )


def _partition(
    at: TopicPartition,
    committed: Committed | None,
    bounds: _Bounds,
    known: GroupHistoryPartition | None,
    now_ms: int,
    unread_since_ms: int | None,
) -> PartitionReport:
    ago: int | None = None
    pace: ConsumptionRate | None = None
    if known is not None:
        ago = max(0, now_ms - known.committed_at_ms)
        if known.pace_ms > 0:
            pace = ConsumptionRate(known.pace_ms, known.consumed, known.produced)
    unread_ms = None if unread_since_ms is None else max(0, now_ms - unread_since_ms)
    if committed is not None and committed.offset >= bounds.end:
        unread_ms = 0
    return PartitionReport(
        at,
        None if committed is None else committed.offset,
        bounds.start,
        bounds.end,
        metadata="" if committed is None else committed.metadata,
        unread_ms=unread_ms,
        stable=bounds.stable,
        unfinished=None if committed is None or committed.lag < 0 else committed.lag,
        committed_ago_ms=ago,
        pace=pace,
    )


def _with_owners(
    owners: Mapping[TopicPartition, str], partitions: Iterable[PartitionReport]
) -> tuple[PartitionReport, ...]:
    return tuple(replace(each, owner=owners.get(each.at)) for each in partitions)
