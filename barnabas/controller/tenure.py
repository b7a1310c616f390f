"""One tenure of a controller: its state, and how each change is written and sent to brokers.

In: changes that operations have decided on. Out: writes of a thousand changes at most, then
requests: per event one LeaderAndIsr to each affected broker, one StopReplica, one UpdateMetadata
to all.
Always: a change is in memory, in the history and in requests only after its write.
Not here: the decisions (brokers.py, topics.py, in_sync.py, reassignment.py,
requested_elections.py).
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from barnabas.controller.history import ClusterHistory, what_changed
from barnabas.controller.messages import ALL, SOME, RequestBuilder, live_brokers
from barnabas.controller.proof import unreported
from barnabas.controller.state import (
    NO_LEADER,
    Assignment,
    ClusterState,
    PartitionLeadership,
    PartitionView,
    TopicView,
)
from barnabas.controller.steps import (
    Change,
    LogLine,
    NewState,
    NewTopic,
    ReadConfig,
    SendRequest,
    SetAssignments,
    SetState,
    Steps,
    Write,
)
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.messages.update_metadata import UpdateMetadataTopicState

CHANGES_MAX = 1000  # in one write
WRITE_BYTES_MAX = 900_000  # approximate, per write: ZooKeeper accepts a million
UNCLEAN = "unclean.leader.election.enable"
_NO_REPLICA, _LEADER, _ALL_REPLICAS = 0, 1, 2


@dataclass(slots=True)
class ControllerOptions:
    """The options of the broker's configuration; they may change at any time."""

    unclean: bool = False
    unclean_static: bool = False  # the value in the configuration file
    rebalance: bool = True
    rebalance_interval_ms: int = 300_000
    imbalance_percent: int = 10


class NextState(NamedTuple):
    """A partition's next state, and why."""

    partition: PartitionView
    state: PartitionLeadership
    cause: str
    assignment: Assignment | None = None  # written with it, if it changes


class ControllerTenure:
    """From one controller election to the next."""

    def __init__(
        self,
        controller: BrokerId,
        epoch: int,
        options: ControllerOptions,
        chance: Callable[[int], int],
        new_id: Callable[[], UUID],
    ) -> None:
        self.controller = controller
        self.epoch = epoch
        self.options = options
        self.chance = chance  # returns a random number below its argument
        self.new_id = new_id
        self.now = 0
        self.cluster = ClusterState()
        self.history = ClusterHistory()
        self.elections = 0
        self.unclean_elections = 0
        self.deletions: dict[str, dict[BrokerId, None]] = {}  # brokers that have not replied
        self.rebalance_at: int | None = None
        self.waiting: dict[PartitionView, int] = {}  # until when it waits for missing members
        # Topics that need more replicas in sync from a time on, when all leaders know it.
        self.raised: dict[TopicView, tuple[int | None, int]] = {}
        # In-sync sets that shrink to their leader once it has replied, and why.
        self.unanswered: dict[PartitionView, str] = {}
        self._request_builder = RequestBuilder(controller, epoch)
        self._clear()

    def _clear(self) -> None:
        # Requests to send at the end of this event.
        # Only in metadata, or which replicas also get LeaderAndIsr.
        self._changed: dict[PartitionView, int] = {}
        self._new: dict[PartitionView, None] = {}
        self._stops: dict[BrokerId, dict[TopicPartition, int]] = {}
        self._report_requests: dict[BrokerId, list[PartitionView]] = {}
        self._deleted: list[UpdateMetadataTopicState] = []
        self._newly_registered: dict[BrokerId, None] = {}
        self._brokers_changed = False

    # Writing

    def write(
        self,
        nexts: Iterable[NextState],
        *extra: Change,
        then: Callable[[], None] | None = None,
    ) -> Steps[None]:
        """Write next states, and with the first of them other changes.

        `then` is called after that first write, before anything else changes in memory.
        """
        rest = deque(nexts)
        few = _take_batch(rest, WRITE_BYTES_MAX - sum(map(_bytes_of, extra)))
        while few or extra:
            versions = yield Write([*extra, *(_change(each) for each in few)])
            if then is not None:
                then()
            for each, version in zip(few, versions[len(extra) :], strict=True):
                yield from self._written(each, version)
            few, extra, then = _take_batch(rest, WRITE_BYTES_MAX), (), None

    def _written(self, each: NextState, version: int) -> Steps[None]:
        partition, old = each.partition, each.partition.state
        new = each.state._replace(version=version)
        what = what_changed(old, new)
        self.cluster.put(partition, new, each.assignment)
        self.history.add_state(self.now, partition.name, old, new, each.cause)
        new_leadership = old is None or new.leader_epoch != old.leader_epoch
        if new_leadership:
            self.unanswered.pop(partition, None)
            self.elections += new.leader != NO_LEADER
        if old is None:
            self._new[partition] = None
        self.send_state(partition, all_replicas=new_leadership or each.assignment is not None)
        if what == "unclean election":
            self.unclean_elections += 1
            yield LogLine(
                "unclean election: committed records may be lost",
                {
                    "partition": str(partition.name),
                    "leader": new.leader,
                    "leader_epoch": new.leader_epoch,
                    "isr_before": () if old is None else old.isr,
                    "cause": each.cause,
                },
                warn=True,
            )
        elif what == "leader lost":
            yield LogLine(
                "partition offline",
                {"partition": str(partition.name), "isr": new.isr, "cause": each.cause},
                warn=True,
            )

    def allows_unclean(self, topic: str, known: dict[str, bool]) -> Steps[bool]:
        """`known`: values that were already read in this event."""
        if topic not in known:
            settings = yield ReadConfig("topics", topic)
            said = settings.get(UNCLEAN)
            known[topic] = self.options.unclean if said is None else said == "true"
        return known[topic]

    def racks(self) -> dict[BrokerId, str | None]:
        """Brokers that replicas are placed on first."""
        brokers = self.cluster.brokers.values()
        return {each.id: each.rack for each in brokers if each.id not in self.cluster.leaving}

    def racks_down(self) -> dict[BrokerId, str | None]:
        """Registered brokers that are down or shutting down: replicas are placed on them if the
        others are too few, as in Kafka."""
        up = self.racks()
        known = {each.id: each.rack for each in self.cluster.known_brokers.values()}
        known.update((each.id, each.rack) for each in self.cluster.brokers.values())
        return {broker: rack for broker, rack in known.items() if broker not in up}

    # Requests to brokers

    def send_everything(self, broker: BrokerId) -> None:
        """Send it everything at the end of this event."""
        self._newly_registered[broker] = None
        self._brokers_changed = True

    def brokers_changed(self) -> None:
        self._brokers_changed = True

    def send_state(self, partition: PartitionView, *, all_replicas: bool) -> None:
        """Send its state to all replicas, or only to the leader. Metadata are sent to all
        brokers."""
        recipients = _ALL_REPLICAS if all_replicas else _LEADER
        self._changed[partition] = max(recipients, self._changed.get(partition, _NO_REPLICA))

    def sent_in_reply(self, partition: PartitionView) -> None:
        """The leader proposed this change, and the reply to its proposal has the new state."""
        self._changed[partition] = _NO_REPLICA

    def replicas_added(self, partition: PartitionView) -> None:
        """It has replicas that have no records yet."""
        self._new[partition] = None

    def ask_for_report(self, partition: PartitionView) -> None:
        """From all available replicas that were not asked yet."""
        for broker in unreported(self.cluster, partition):
            if not self.cluster.is_asked(broker, partition):
                self.cluster.put_report(broker, partition, None)
                self._report_requests.setdefault(broker, []).append(partition)

    def ask_leader(self, partition: PartitionView, cause: str) -> None:
        """Whether it still has its log: the in-sync set is to shrink to it."""
        if partition not in self.unanswered:
            self._report_requests.setdefault(partition.leader, []).append(partition)
        self.unanswered[partition] = cause

    def stop_replica(self, broker: BrokerId, name: TopicPartition, epoch: int) -> None:
        """And delete its log."""
        if broker in self.cluster.brokers:
            self._stops.setdefault(broker, {})[name] = epoch

    def topic_deleted(self, topic: TopicView) -> None:
        self._deleted.append(self._request_builder.deleted(topic))
        self.raised.pop(topic, None)
        for partition in topic.partitions:
            self._changed.pop(partition, None)
            self.waiting.pop(partition, None)
            self.unanswered.pop(partition, None)

    def flush(self) -> Steps[None]:
        """Send the changes of this event to brokers."""
        cluster, request_builder = self.cluster, self._request_builder
        for broker, asked in sorted(self._report_requests.items()):
            if broker in cluster.brokers:
                yield SendRequest(
                    broker, request_builder.describe_replicas(cluster.brokers[broker], asked)
                )
        for broker in sorted(self._newly_registered, key=self._own_last):
            hosted = [each for each in cluster.hosted(broker) if each.state is not None]
            yield self._leader_and_isr(broker, hosted, ALL)
        to_replicas: dict[BrokerId, list[PartitionView]] = {}
        for partition, recipients in self._changed.items():
            for broker in _recipients(partition, recipients):
                if broker in cluster.brokers and broker not in self._newly_registered:
                    to_replicas.setdefault(broker, []).append(partition)
        for broker in sorted(to_replicas, key=self._own_last):
            yield self._leader_and_isr(broker, to_replicas[broker], SOME)
        for broker, stops in sorted(self._stops.items()):
            to = cluster.brokers[broker]
            yield SendRequest(broker, request_builder.stop_replica(to, stops, delete=True))
        yield from self._update_metadata()
        self._clear()

    def _own_last(self, broker: BrokerId) -> tuple[bool, BrokerId]:
        """This broker's own requests are last, so that the others work at the same time."""
        return broker == self.controller, broker

    def _leader_and_isr(
        self, broker: BrokerId, partitions: Sequence[PartitionView], type_: int
    ) -> SendRequest:
        to = self.cluster.brokers[broker]
        live = self.cluster.brokers
        message = self._request_builder.leader_and_isr(
            to, partitions, live, new=self._new, type_=type_
        )
        return SendRequest(broker, message)

    def _update_metadata(self) -> Steps[None]:
        cluster, request_builder = self.cluster, self._request_builder
        live = live_brokers(cluster.brokers.values())
        if self._newly_registered:
            everything = request_builder.described(cluster.all(), cluster)
            for broker in self._newly_registered:
                to = cluster.brokers[broker]
                yield SendRequest(
                    broker, request_builder.update_metadata(to, everything, live, type_=ALL)
                )
        if self._changed or self._deleted or self._brokers_changed:
            some = self._deleted + request_builder.described(self._changed, cluster)
            for broker, to in cluster.brokers.items():
                if broker not in self._newly_registered:
                    yield SendRequest(broker, request_builder.update_metadata(to, some, live))


def _recipients(partition: PartitionView, recipients: int) -> Sequence[BrokerId]:
    if recipients == _ALL_REPLICAS:
        return partition.assignment.replicas
    return (partition.leader,) if recipients == _LEADER else ()


def _take_batch(nexts: deque[NextState], bytes_max: int) -> list[NextState]:
    """As many as fit into one write; removed from `nexts`."""
    some: list[NextState] = []
    while nexts and len(some) < CHANGES_MAX:
        each = nexts[0]
        # Two nodes, each with the path of the topic, and the state.
        bytes_max -= 2 * len(each.partition.name.topic) + 500 + 50 * len(each.state.isr)
        if bytes_max < 0 and some:
            break
        some.append(nexts.popleft())
        if bytes_max < 0:
            break
    return some


def _bytes_of(change: Change) -> int:
    """Approximate; for changes that can be large."""
    if not isinstance(change, NewTopic | SetAssignments):
        return 0
    ids = sum(
        len(each.replicas) + len(each.adding) + len(each.removing)
        for each in change.assignments.values()
    )
    return 12 * len(change.assignments) + 8 * ids


def _change(each: NextState) -> Change:
    name = each.partition.name
    if each.partition.state is None:
        return NewState(name, each.state)
    return SetState(name, each.state)
