"""One term of a controller: what it knows, and how each of its changes is written and told.

In: changes that operations have decided on. Out: writes of a thousand changes at most, then
messages: per event one LeaderAndIsr to each broker concerned, one StopReplica, one UpdateMetadata
to all.
Always: a change is in memory, in the story and in messages only after its write.
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
WRITE_BYTES_MAX = 900_000  # about, in one write: ZooKeeper takes a million
UNCLEAN = "unclean.leader.election.enable"
_NOBODY, _LEADER, _EVERYONE = 0, 1, 2


@dataclass(slots=True)
class ControllerOptions:
    """What the broker's configuration says; it may change meanwhile."""

    unclean: bool = False
    unclean_static: bool = False  # what holds when no request has said anything
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
    """From one election of the controller to the next."""

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
        self.chance = chance  # a number below the one given
        self.new_id = new_id
        self.now = 0
        self.cluster = ClusterState()
        self.story = ClusterHistory()
        self.elections = 0
        self.unclean_elections = 0
        self.deletions: dict[str, dict[BrokerId, None]] = {}  # brokers that have not answered
        self.rebalance_at: int | None = None
        self.waiting: dict[PartitionView, int] = {}  # until when, for members that are missing
        # In-sync sets that shrink to their leader once it has answered, and why.
        self.unanswered: dict[PartitionView, str] = {}
        self._request_builder = RequestBuilder(controller, epoch)
        self._clear()

    def _clear(self) -> None:
        # What brokers are to be told at the end of this event.
        self._changed: dict[PartitionView, int] = {}  # told to nobody but in metadata, or to whom
        self._new: dict[PartitionView, None] = {}
        self._stops: dict[BrokerId, dict[TopicPartition, int]] = {}
        self._questions: dict[BrokerId, list[PartitionView]] = {}
        self._deleted: list[UpdateMetadataTopicState] = []
        self._newcomers: dict[BrokerId, None] = {}
        self._brokers_changed = False

    # Writing

    def write(
        self,
        nexts: Iterable[NextState],
        *extra: Change,
        then: Callable[[], None] | None = None,
    ) -> Steps[None]:
        """Next states, and with the first of them what else is to be written.

        `then` is called when that is done, before anything else changes in memory.
        """
        rest = deque(nexts)
        few = _some(rest, WRITE_BYTES_MAX - sum(map(_bytes_of, extra)))
        while few or extra:
            versions = yield Write([*extra, *(_change(each) for each in few)])
            if then is not None:
                then()
            for each, version in zip(few, versions[len(extra) :], strict=True):
                yield from self._written(each, version)
            few, extra, then = _some(rest, WRITE_BYTES_MAX), (), None

    def _written(self, each: NextState, version: int) -> Steps[None]:
        partition, old = each.partition, each.partition.state
        new = each.state._replace(version=version)
        what = what_changed(old, new)
        self.cluster.put(partition, new, each.assignment)
        self.story.add_state(self.now, partition.name, old, new, each.cause)
        led_anew = old is None or new.leader_epoch != old.leader_epoch
        if led_anew:
            self.unanswered.pop(partition, None)
            self.elections += new.leader != NO_LEADER
        if old is None:
            self._new[partition] = None
        self.retell(partition, everyone=led_anew or each.assignment is not None)
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
                loud=True,
            )
        elif what == "leader lost":
            yield LogLine(
                "partition offline",
                {"partition": str(partition.name), "isr": new.isr, "cause": each.cause},
                loud=True,
            )

    def allows_unclean(self, topic: str, known: dict[str, bool]) -> Steps[bool]:
        """`known`: what was read before, in this event."""
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
        """Registered brokers that are down or about to stop: replicas are placed on them where
        the others are too few, as in Kafka."""
        up = self.racks()
        known = {each.id: each.rack for each in self.cluster.known_brokers.values()}
        known.update((each.id, each.rack) for each in self.cluster.brokers.values())
        return {broker: rack for broker, rack in known.items() if broker not in up}

    # Telling

    def welcome(self, broker: BrokerId) -> None:
        """It is told everything at the end of this event."""
        self._newcomers[broker] = None
        self._brokers_changed = True

    def brokers_changed(self) -> None:
        self._brokers_changed = True

    def retell(self, partition: PartitionView, *, everyone: bool) -> None:
        """Its state: to all replicas, or to the leader only. Metadata go to all brokers."""
        whom = _EVERYONE if everyone else _LEADER
        self._changed[partition] = max(whom, self._changed.get(partition, _NOBODY))

    def told_by_answer(self, partition: PartitionView) -> None:
        """The leader has asked for its last change, and hears of it by the answer."""
        self._changed[partition] = _NOBODY

    def joined(self, partition: PartitionView) -> None:
        """It has replicas that have nothing yet."""
        self._new[partition] = None

    def ask_for_report(self, partition: PartitionView) -> None:
        """All its replicas that are there and were not asked yet."""
        for broker in unreported(self.cluster, partition):
            if not self.cluster.is_asked(broker, partition):
                self.cluster.put_report(broker, partition, None)
                self._questions.setdefault(broker, []).append(partition)

    def ask_leader(self, partition: PartitionView, cause: str) -> None:
        """Whether it still has its log: the in-sync set shall shrink to it."""
        if partition not in self.unanswered:
            self._questions.setdefault(partition.leader, []).append(partition)
        self.unanswered[partition] = cause

    def stop_replica(self, broker: BrokerId, name: TopicPartition, epoch: int) -> None:
        """With its log."""
        if broker in self.cluster.brokers:
            self._stops.setdefault(broker, {})[name] = epoch

    def topic_deleted(self, topic: TopicView) -> None:
        self._deleted.append(self._request_builder.deleted(topic))
        for partition in topic.partitions:
            self._changed.pop(partition, None)
            self.waiting.pop(partition, None)
            self.unanswered.pop(partition, None)

    def flush(self) -> Steps[None]:
        """Tell brokers what this event has changed."""
        cluster, request_builder = self.cluster, self._request_builder
        for broker, asked in sorted(self._questions.items()):
            if broker in cluster.brokers:
                yield SendRequest(
                    broker, request_builder.describe_replicas(cluster.brokers[broker], asked)
                )
        for broker in sorted(self._newcomers, key=self._own_last):
            hosted = [each for each in cluster.hosted(broker) if each.state is not None]
            yield self._lead(broker, hosted, ALL)
        told: dict[BrokerId, list[PartitionView]] = {}
        for partition, whom in self._changed.items():
            for broker in _recipients(partition, whom):
                if broker in cluster.brokers and broker not in self._newcomers:
                    told.setdefault(broker, []).append(partition)
        for broker in sorted(told, key=self._own_last):
            yield self._lead(broker, told[broker], SOME)
        for broker, stops in sorted(self._stops.items()):
            to = cluster.brokers[broker]
            yield SendRequest(broker, request_builder.stop_replica(to, stops, delete=True))
        yield from self._publish()
        self._clear()

    def _own_last(self, broker: BrokerId) -> tuple[bool, BrokerId]:
        """The others can be at it while this broker does what it is told itself."""
        return broker == self.controller, broker

    def _lead(
        self, broker: BrokerId, partitions: Sequence[PartitionView], type_: int
    ) -> SendRequest:
        to = self.cluster.brokers[broker]
        live = self.cluster.brokers
        message = self._request_builder.leader_and_isr(
            to, partitions, live, new=self._new, type_=type_
        )
        return SendRequest(broker, message)

    def _publish(self) -> Steps[None]:
        cluster, request_builder = self.cluster, self._request_builder
        live = live_brokers(cluster.brokers.values())
        if self._newcomers:
            everything = request_builder.described(cluster.all(), cluster)
            for broker in self._newcomers:
                to = cluster.brokers[broker]
                yield SendRequest(
                    broker, request_builder.update_metadata(to, everything, live, type_=ALL)
                )
        if self._changed or self._deleted or self._brokers_changed:
            some = self._deleted + request_builder.described(self._changed, cluster)
            for broker, to in cluster.brokers.items():
                if broker not in self._newcomers:
                    yield SendRequest(broker, request_builder.update_metadata(to, some, live))


def _recipients(partition: PartitionView, whom: int) -> Sequence[BrokerId]:
    if whom == _EVERYONE:
        return partition.assignment.replicas
    return (partition.leader,) if whom == _LEADER else ()


def _some(nexts: deque[NextState], bytes_max: int) -> list[NextState]:
    """As many as one write can have, at most; taken from `nexts`."""
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
    """About; of those that can be large."""
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
