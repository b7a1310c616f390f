"""What the controller knows: brokers, topics, and the state of every partition.

In: values from the keeper. Out: the same, indexed by name and by broker, and counted.
Always: it holds only what has been written. A partition's state changes only by `put`, which also
updates the indexes and counts, so nothing has to be counted over all partitions.
Not here: the decisions (the other modules), how nodes are written (broker/controller/store.py).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from barnabas.controller.proof import ReplicaReport
from barnabas.model.ids import BrokerId, TopicPartition

NO_LEADER = BrokerId(-1)


class BrokerEndpoint(NamedTuple):
    """An address that a broker advertises."""

    listener: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A registered broker. It gets a new epoch each time it registers."""

    id: BrokerId
    epoch: int
    endpoints: tuple[BrokerEndpoint, ...] = ()
    rack: str | None = None
    directories: tuple[str, ...] = ()
    """The ids of its log directories (KIP-858); empty if it did not report them."""
    min_insync: int = 1
    """Its min.insync.replicas, for topics that have none."""


class KnownBroker(NamedTuple):
    """A broker that has registered and was not unregistered since; it may be down."""

    id: BrokerId
    rack: str | None
    directories: tuple[str, ...]
    lost_epoch: int = -1
    """The epoch of the last registration in which a previous log directory was missing."""


class PartitionLeadership(NamedTuple):
    """The leader and the in-sync set of a partition, from its state node.

    `version` is that of the node: the partition epoch, which increases with every change. The
    leader epoch increases only with each new leadership, so that a smaller ISR fences no client.
    """

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    version: int = 0
    recovering: bool = False
    """Since an unclean election, until its leader has reported that it has recovered."""
    isr_epochs: tuple[int, ...] = ()
    """The epochs of the brokers in `isr` when they were added. A broker that has registered again
    since may have lost its disk and is no longer in sync, also if there was no controller then."""
    elr: tuple[BrokerId, ...] = ()
    """Eligible leader replicas (KIP-966): brokers that left `isr` when it became smaller than
    min.insync.replicas. Nothing was committed since, so they have all committed records."""

    def epoch_of(self, broker: BrokerId) -> int:
        """The broker epoch with which a broker is in `isr`; -1 if it is not known."""
        for each, epoch in zip(self.isr, self.isr_epochs, strict=False):
            if each == broker:
                return epoch
        return -1


class Assignment(NamedTuple):
    """The brokers of a partition's replicas, the preferred leader first.

    During a reassignment, `replicas` has the new ones first and then those to be removed.
    """

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas after the reassignment."""
        if not self.removing:
            return self.replicas
        return tuple(each for each in self.replicas if each not in self.removing)


class PartitionView:
    """One partition, as the controller last wrote it. `state` is None until it has a leader."""

    __slots__ = ("assignment", "name", "state", "topic")

    def __init__(self, topic: "TopicView", index: int, assignment: Assignment) -> None:
        self.topic = topic
        self.name = TopicPartition(topic.name, index)
        self.assignment = assignment
        self.state: PartitionLeadership | None = None

    @property
    def leader(self) -> BrokerId:
        return NO_LEADER if self.state is None else self.state.leader

    @property
    def preferred(self) -> BrokerId:
        return self.assignment.replicas[0]

    @property
    def under_replicated(self) -> bool:
        """Replicas that are still being added are ignored."""
        wanted = len(self.assignment.replicas) - len(self.assignment.adding)
        return self.state is None or len(self.state.isr) < wanted


class TopicView:
    """A topic: its id and its partitions, from 0 on."""

    __slots__ = ("id", "min_insync", "name", "partitions")

    def __init__(self, name: str, id_: UUID, assignments: Iterable[Assignment] = ()) -> None:
        self.name = name
        self.id = id_
        self.min_insync: int | None = None  # from its settings
        self.partitions = [PartitionView(self, *each) for each in enumerate(assignments)]

    def assignments(self) -> dict[int, Assignment]:
        return {index: each.assignment for index, each in enumerate(self.partitions)}


Partitions = dict[PartitionView, None]
"""In insertion order, which a set would not keep."""


class ClusterState:
    """Brokers, topics and partitions, indexed by what an event names."""

    def __init__(self) -> None:
        self.brokers: dict[BrokerId, BrokerInfo] = {}  # ordered by id
        self.leaving: dict[BrokerId, None] = {}  # they are shutting down
        self.known_brokers: dict[BrokerId, KnownBroker] = {}  # including those that are down
        self.min_insync: int | None = None  # the smallest value in the settings of brokers
        self.topics: dict[str, TopicView] = {}
        self.by_id: dict[UUID, TopicView] = {}
        self.moving: Partitions = {}
        self.leaderless: Partitions = {}  # offline, or without a first state
        self.partitions = 0
        self.under_replicated = 0
        self.imbalanced = 0  # led by another broker than the preferred leader
        self._hosted: dict[BrokerId, Partitions] = {}
        self._led: dict[BrokerId, Partitions] = {}
        self._failed: dict[BrokerId, Partitions] = {}  # replicas on failed disks
        # The reports of brokers about their replicas; None: requested, no reply yet.
        self._reports: dict[BrokerId, dict[PartitionView, ReplicaReport | None]] = {}

    # Brokers

    def join(self, broker: BrokerInfo) -> None:
        """It has registered, perhaps again: earlier reports about it are dropped."""
        self.leave(broker.id)
        self.brokers[broker.id] = broker
        self.brokers = dict(sorted(self.brokers.items()))

    def leave(self, broker: BrokerId) -> None:
        self.brokers.pop(broker, None)
        self.leaving.pop(broker, None)
        self._failed.pop(broker, None)
        self._reports.pop(broker, None)

    def fail(self, broker: BrokerId, partition: PartitionView) -> None:
        self._failed.setdefault(broker, {})[partition] = None

    def online(self, broker: BrokerId, partition: PartitionView) -> bool:
        """Whether the replica is available: its broker is registered and its disk works."""
        return broker in self.brokers and partition not in self._failed.get(broker, ())

    def usable(self, broker: BrokerId, partition: PartitionView) -> bool:
        """Whether the replica could lead: it is available and its broker is not shutting down."""
        return self.online(broker, partition) and broker not in self.leaving

    def is_current(self, broker: BrokerId, state: PartitionLeadership) -> bool:
        """Whether it has the registration with which it joined the in-sync set."""
        epoch = state.epoch_of(broker)
        return epoch >= 0 and self.epoch(broker) == epoch

    def report(self, broker: BrokerId, partition: PartitionView) -> ReplicaReport | None:
        """Its report about its replica, of this registration."""
        return self._reports.get(broker, {}).get(partition)

    def is_asked(self, broker: BrokerId, partition: PartitionView) -> bool:
        return partition in self._reports.get(broker, {})

    def put_report(
        self, broker: BrokerId, partition: PartitionView, report: ReplicaReport | None
    ) -> None:
        self._reports.setdefault(broker, {})[partition] = report

    def forget_reports(self, broker: BrokerId) -> None:
        self._reports.pop(broker, None)

    def min_isr(self, partition: PartitionView) -> int:
        """With fewer replicas in sync, no leader commits anything. If the topic does not set it,
        the smallest value of any broker: their configuration files may differ."""
        wanted = partition.topic.min_insync
        return min(self.or_default(wanted), len(partition.assignment.replicas))

    def or_default(self, min_insync: int | None) -> int:
        """The setting of a topic, or what the brokers use without one."""
        if min_insync is not None:
            return min_insync
        said = [each.min_insync for each in self.brokers.values()]
        return min(said + ([] if self.min_insync is None else [self.min_insync]), default=1)

    def epoch(self, broker: BrokerId) -> int:
        found = self.brokers.get(broker)
        return -1 if found is None else found.epoch

    # Partitions by broker

    def hosted(self, broker: BrokerId) -> Partitions:
        return self._hosted.get(broker, {})

    def led(self, broker: BrokerId) -> Partitions:
        return self._led.get(broker, {})

    def known(self, broker: BrokerId) -> bool:
        """It has registered before, or an assignment names it."""
        return broker in self.brokers or broker in self.known_brokers or bool(self.hosted(broker))

    def all(self) -> Iterator[PartitionView]:
        for topic in self.topics.values():
            yield from topic.partitions

    def find(self, name: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            return None
        return topic.partitions[name.partition]

    # Changes, after they are written

    def add_topic(self, topic: TopicView) -> None:
        """With its partitions."""
        self.topics[topic.name] = self.by_id[topic.id] = topic
        for partition in topic.partitions:
            self._count(partition, 1)

    def add_partitions(self, topic: TopicView, partitions: Iterable[PartitionView]) -> None:
        for partition in partitions:
            assert partition.name.partition == len(topic.partitions)
            topic.partitions.append(partition)
            self._count(partition, 1)

    def remove_topic(self, topic: TopicView) -> None:
        for partition in topic.partitions:
            self._count(partition, -1)
            for failed in self._failed.values():
                failed.pop(partition, None)
            for reports in self._reports.values():
                reports.pop(partition, None)
        del self.topics[topic.name], self.by_id[topic.id]

    def put(
        self,
        partition: PartitionView,
        state: PartitionLeadership | None = None,
        assignment: Assignment | None = None,
    ) -> None:
        """Arguments that are not given stay unchanged."""
        self._count(partition, -1)
        if state is not None and state.leader != NO_LEADER:
            for reports in self._reports.values():
                reports.pop(partition, None)  # they may be older than later writes
        partition.state = state or partition.state
        partition.assignment = assignment or partition.assignment
        self._count(partition, 1)

    def _count(self, partition: PartitionView, by: int) -> None:
        leader = partition.leader
        self.partitions += by
        self.under_replicated += by if partition.under_replicated else 0
        self.imbalanced += by if leader not in (NO_LEADER, partition.preferred) else 0
        homes = [self.leaderless if leader == NO_LEADER else self._led.setdefault(leader, {})]
        if partition.assignment.moving:
            homes.append(self.moving)
        homes += [self._hosted.setdefault(each, {}) for each in partition.assignment.replicas]
        for home in homes:
            if by > 0:
                home[partition] = None
            else:
                home.pop(partition, None)
