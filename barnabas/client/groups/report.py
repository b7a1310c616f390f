"""A report of one group at one moment.

Values that only a Barnabas broker reports (history, timeouts, times of commits, rates) are None or
empty for another broker; `has_history` says which it was.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.client.transactions.report import TransactionsReport, UnstablePartition
from barnabas.model.ids import TopicPartition
from barnabas.model.words import short_member
from barnabas.wire.messages.describe_group_history import GroupHistoryNote, GroupHistoryRebalance
from barnabas.wire.messages.describe_share_partitions import DescribedSharePartition

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
STREAMS = "streams"


class GroupListing(NamedTuple):
    """A group in a list. `type`: classic, consumer, share, streams, or empty where a broker does
    not say."""

    group: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


class ConsumptionRate(NamedTuple):
    """Records read and records written within `ms`."""

    ms: int
    consumed: int
    produced: int


class StreamsTask(NamedTuple):
    """A task of Kafka Streams, which reads one partition of each topic of its subtopology. `role`:
    active, standby, or warm-up (a standby that is to become active)."""

    role: str
    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"  # as Kafka Streams names it in its log


class StreamsSubtopology(NamedTuple):
    """A part of a topology whose tasks run apart from those of the others."""

    id: str
    sources: tuple[str, ...]
    repartitions: tuple[str, ...]  # internal topics that it reads
    changelogs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemberReport:
    """One member. Its partitions are known once the group is stable."""

    id: str
    client: str
    host: str
    instance: str | None = None
    topics: tuple[str, ...] = ()
    owned: tuple[TopicPartition, ...] = ()
    tasks: tuple[StreamsTask, ...] = ()  # of a streams group
    # From the history:
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    silent_ms: int | None = None
    awaited: bool = False
    protocols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The position of the group in one partition.

    `unread_ms`: age of the first unread record. Without a committed offset, all records are unread:
    only the member knows its auto.offset.reset, and missing information must not look like no lag.
    `stable`: the last stable offset, where readers of committed records stop; None if not asked.
    """

    at: TopicPartition
    committed: int | None
    start: int
    end: int
    owner: str | None = None
    metadata: str = ""
    unread_ms: int | None = None
    stable: int | None = None
    unfinished: int | None = None  # of a share group: records that are not finished, if known
    # From the history:
    committed_ago_ms: int | None = None
    pace: ConsumptionRate | None = None

    @property
    def lag(self) -> int:
        if self.unfinished is not None:
            return self.unfinished
        return max(0, self.end - (self.start if self.committed is None else self.committed))

    @property
    def committed_lag(self) -> int:
        """The lag of a group that reads committed records only: up to the last stable offset.

        Brokers do not know which groups do.
        """
        return max(0, self.lag - (0 if self.stable is None else max(0, self.end - self.stable)))

    @property
    def no_commit_yet(self) -> bool:
        """The partition has records, and the group has committed no offset in it."""
        return self.committed is None and self.lag > 0

    @property
    def catch_up_ms(self) -> int | None:
        """Time to catch up at the current rate; None if it is not known, or never."""
        if self.lag == 0:
            return 0
        if self.pace is None or self.pace.consumed <= self.pace.produced:
            return None
        return self.lag * self.pace.ms // (self.pace.consumed - self.pace.produced)


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A group, its members, its partitions and its history."""

    group: str
    state: str
    type: str = CLASSIC
    assignor: str = ""
    coordinator: str = ""
    generation: int | None = None
    protocol_type: str = CONSUMER
    members: tuple[MemberReport, ...] = ()
    partitions: tuple[PartitionReport, ...] = ()
    rebalances: tuple[GroupHistoryRebalance, ...] = ()
    notes: tuple[GroupHistoryNote, ...] = ()
    has_history: bool = False
    history_since_ms: int | None = None  # start of the broker, and so of the history
    now_ms: int = 0  # by the broker's clock if known, else by ours
    topic_partitions: dict[str, int] = field(default_factory=dict)  # of all topics it reads
    # open where the group reads
    transactions: TransactionsReport = field(default_factory=TransactionsReport)
    shares: tuple[DescribedSharePartition, ...] = ()  # of a share group, where brokers report it
    subtopologies: tuple[StreamsSubtopology, ...] = ()  # of a streams group

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.partitions)

    @property
    def committed_lag(self) -> int:
        return sum(partition.committed_lag for partition in self.partitions)

    @property
    def behind_transactions(self) -> tuple[UnstablePartition, ...]:
        """Partitions where the group has read all committed records, and more are hidden."""
        return tuple(
            held
            for held in self.transactions.held
            if any(each.at_stable for each in held.groups if each.group == self.group)
            or any(reader.group == self.group for reader in held.readers)
        )

    @property
    def reads_committed(self) -> bool:
        """Whether a member was seen to wait for a transaction; else it is not known."""
        readers = (reader for held in self.transactions.held for reader in held.readers)
        return any(reader.group == self.group for reader in readers)

    @property
    def lag_max(self) -> int:
        return max((partition.lag for partition in self.partitions), default=0)

    @property
    def no_commit_yet(self) -> tuple[PartitionReport, ...]:
        return tuple(partition for partition in self.partitions if partition.no_commit_yet)

    @property
    def is_unknown(self) -> bool:
        """The group has no members and no committed offsets: it may have read all
        records or none.
        """
        return not self.members and not self.partitions

    @property
    def owned(self) -> tuple[PartitionReport, ...]:
        """The partitions that a member has now."""
        return tuple(partition for partition in self.partitions if partition.owner is not None)

    @property
    def unread_ms(self) -> int:
        """Age of the oldest unread record."""
        return max((partition.unread_ms or 0 for partition in self.partitions), default=0)

    @property
    def catch_up_ms(self) -> int | None:
        """Time until the slowest partition has caught up; None if it is not known, or never."""
        times = [partition.catch_up_ms for partition in self.partitions if partition.lag]
        known = [time for time in times if time is not None]
        return max(known, default=0) if len(known) == len(times) else None

    def name_of(self, id_: str) -> str:
        """The client id of a member, if no other member has the same."""
        member = self.member(id_)
        if member is None:
            return short_member(id_, "")
        alike = [other for other in self.members if other.client == member.client]
        if member.client and len(alike) == 1:
            return member.client
        return short_member(id_, member.client)

    def member(self, id_: str | None) -> MemberReport | None:
        return next((member for member in self.members if member.id == id_), None)


def with_pace(now: GroupReport, before: GroupReport, ms: int) -> GroupReport:
    """Adds the rates between two reports, if no broker reported them."""
    from dataclasses import replace

    earlier = {partition.at: partition for partition in before.partitions}

    def paced(partition: PartitionReport) -> PartitionReport:
        old = earlier.get(partition.at)
        if partition.pace is not None or old is None or ms <= 0:
            return partition
        if partition.end < old.end or (partition.committed or 0) < (old.committed or 0):
            return partition
        consumed = (partition.committed or 0) - (old.committed or 0)
        if old.committed is None:
            consumed = 0
        return replace(partition, pace=ConsumptionRate(ms, consumed, partition.end - old.end))

    return replace(now, partitions=tuple(map(paced, now.partitions)))
