"""The controller: one operation per event.

Each operation is a generator of steps (steps.py). All steps of one operation are executed before
the next operation begins.
In: events, requests, the time. Out: steps, and the result of each operation.
Always: the same events and replies give the same steps.
Not here: the queue, the keeper, the network (broker/controller/controller_election.py).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from barnabas.controller import brokers, in_sync, proof, requested_elections, takeover, topics
from barnabas.controller import reassignment as moves
from barnabas.controller.history import ClusterHistory
from barnabas.controller.in_sync import InSyncProposal, ProposalResult, min_insync
from barnabas.controller.messages import EPOCH_DELETED
from barnabas.controller.proof import ReplicaCompleteness, ReplicaReport
from barnabas.controller.reassignment import ReassignmentRequest
from barnabas.controller.requested_elections import ElectionKind
from barnabas.controller.state import NO_LEADER, Assignment, ClusterState, TopicView
from barnabas.controller.steps import LogLine, ReadConfig, SetConfig, Settle, Steps, Write
from barnabas.controller.tenure import UNCLEAN, ControllerOptions, ControllerTenure
from barnabas.controller.topics import Placed
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.describe_replicas import (
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


class Controller:
    """One tenure. A controller that loses its epoch is discarded; the next tenure has a new
    object."""

    def __init__(
        self,
        broker: BrokerId,
        epoch: int,
        options: ControllerOptions,
        chance: Callable[[int], int],
        new_id: Callable[[], UUID],
    ) -> None:
        """`chance` returns a random number below its argument."""
        self._tenure = ControllerTenure(broker, epoch, options, chance, new_id)

    # Queries

    @property
    def cluster(self) -> ClusterState:
        return self._tenure.cluster

    @property
    def history(self) -> ClusterHistory:
        return self._tenure.history

    @property
    def epoch(self) -> int:
        return self._tenure.epoch

    @property
    def elections(self) -> int:
        return self._tenure.elections

    @property
    def unclean_elections(self) -> int:
        return self._tenure.unclean_elections

    @property
    def deletions(self) -> Iterable[str]:
        """Topics whose logs some registered broker still has to delete."""
        return self._tenure.deletions

    def next_deadline(self) -> int | None:
        """When `tick` must be called."""
        rebalance_at = self._tenure.rebalance_at
        times = [*self._tenure.waiting.values(), *([] if rebalance_at is None else [rebalance_at])]
        times += [at for _, at in self._tenure.raised.values()]
        return min(times, default=None)

    # Events

    def take_over(self, now: int) -> Steps[None]:
        return takeover.take_over(self._at(now))

    def brokers_changed(self, now: int) -> Steps[None]:
        return brokers.brokers_changed(self._at(now))

    def tick(self, now: int) -> Steps[None]:
        tenure = self._at(now)
        in_sync.raise_due(tenure)
        yield from brokers.wait_over(tenure)
        yield from requested_elections.rebalance(tenure)

    def answered(
        self, broker: BrokerId, request: ProtocolMessage, response: ProtocolMessage, now: int
    ) -> Steps[None]:
        """A broker's reply to a request that was sent to it."""
        tenure = self._at(now)
        if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
            failed = _on_failed_disks(response, tenure.cluster)
            if failed:
                yield from brokers.replicas_failed(tenure, broker, request.broker_epoch, failed)
        elif isinstance(response, DescribeReplicasResponse) and isinstance(
            request, DescribeReplicasRequest
        ):
            reports = _reports(response, tenure.cluster)
            yield from brokers.reported(tenure, broker, request.broker_epoch, reports)
        elif (
            isinstance(request, StopReplicaRequest)
            and isinstance(response, StopReplicaResponse)
            and response.error_code == Code.NONE
        ):
            yield from topics.stopped(tenure, broker, _deleted_topics(request))

    def send_everything(self, broker: BrokerId, now: int) -> Steps[None]:
        """Send everything to a broker that has missed something."""
        tenure = self._at(now)
        if broker in tenure.cluster.brokers:
            tenure.send_everything(broker)
            tenure.cluster.forget_reports(broker)
            for partition in tenure.cluster.leaderless:
                if broker in partition.assignment.replicas and partition.state is not None:
                    tenure.ask_for_report(partition)
            for partition in tenure.cluster.led(broker):
                cause = tenure.unanswered.pop(partition, None)
                if cause is not None:
                    tenure.ask_leader(partition, cause)
            yield from tenure.flush()

    # Requests

    def create_topic(
        self,
        name: str,
        partitions: int,
        factor: int,
        settings: Mapping[str, str],
        placed: Placed | None,
        now: int,
    ) -> Steps[TopicView]:
        return topics.create(self._at(now), name, partitions, factor, settings, placed)

    def add_partitions(self, name: str, total: int, placed: Placed | None, now: int) -> Steps[None]:
        return topics.add_partitions(self._at(now), name, total, placed)

    def delete_topic(self, name: str, id_: UUID, now: int) -> Steps[None]:
        return topics.delete(self._at(now), name, id_)

    def configure(self, kind: str, name: str, settle: Settle, now: int) -> Steps[dict[str, str]]:
        """Change the settings of a topic ("topics"), of one broker or of all (an empty name;
        "brokers"), of a group ("groups"), of a user ("users"), or of a subscription
        to client metrics ("client-metrics")."""
        tenure = self._at(now)
        if kind == "topics":
            topics.existing(tenure, name)
        before = yield ReadConfig(kind, name)
        settings = settle(before)
        if min_insync(settings) != min_insync(before):
            yield from self._change_min_insync(tenure, kind, name, min_insync(settings))
        yield Write([SetConfig(kind, name, settings)])
        # Settings of users hold credentials: only their names may be logged.
        shown = sorted(settings) if kind == "users" else settings
        yield LogLine("configured", {"kind": kind, "name": name, "settings": shown})
        if settings.get(UNCLEAN) != before.get(UNCLEAN):
            if kind == "topics":
                yield from requested_elections.unclean_allowed(tenure, name)
            elif kind == "brokers" and not name:
                said = settings.get(UNCLEAN)
                options = tenure.options
                options.unclean = options.unclean_static if said is None else said == "true"
                yield from requested_elections.unclean_allowed(tenure, None)
        return settings

    @staticmethod
    def _change_min_insync(
        tenure: ControllerTenure, kind: str, name: str, wanted: int | None
    ) -> Steps[None]:
        """Before the write: leaders commit with fewer replicas in sync as soon as they read it."""
        cluster = tenure.cluster
        if kind == "topics":
            in_sync.change_min_insync(tenure, cluster.topics[name], wanted)
        elif not name:  # brokers that have a value of their own keep it
            said = [] if wanted is None else [wanted]
            for broker in cluster.known_brokers:
                own = yield ReadConfig("brokers", str(broker))
                said += [] if (least := min_insync(own)) is None else [least]
            cluster.min_insync = min(said, default=None)
        else:
            cluster.min_insync = min(wanted or 1, cluster.min_insync or wanted or 1)
        yield from in_sync.forget_eligible(tenure, name if kind == "topics" else None)

    def why_offline(self, name: TopicPartition) -> str:
        """Why a partition has no leader; empty if it has one."""
        partition = self.cluster.find(name)
        if partition is None or partition.leader != NO_LEADER:
            return ""
        return proof.why_offline(self.cluster, partition)

    def alter_partitions(
        self, leader: BrokerId, epoch: int, proposals: Sequence[InSyncProposal], now: int
    ) -> Steps[Code | list[ProposalResult]]:
        return in_sync.alter(self._at(now), leader, epoch, proposals)

    def shut_down(self, broker: BrokerId, epoch: int, now: int) -> Steps[list[TopicPartition]]:
        return brokers.shut_down(self._at(now), broker, epoch)

    def replicas_failed(
        self, broker: BrokerId, epoch: int, names: Iterable[TopicPartition], now: int
    ) -> Steps[None]:
        return brokers.replicas_failed(self._at(now), broker, epoch, names)

    def unregister(self, broker: BrokerId, now: int) -> Steps[None]:
        return brokers.unregister(self._at(now), broker)

    def elect(
        self, kind: ElectionKind, names: Iterable[TopicPartition] | None, now: int
    ) -> Steps[dict[TopicPartition, KafkaError | None]]:
        return requested_elections.elect(self._at(now), kind, names)

    def reassign(
        self, requested_moves: Iterable[ReassignmentRequest], factor_may_change: bool, now: int
    ) -> Steps[dict[TopicPartition, KafkaError | None]]:
        return moves.begin(self._at(now), requested_moves, factor_may_change=factor_may_change)

    def moving(self, asked: Mapping[str, Sequence[int]] | None) -> dict[TopicPartition, Assignment]:
        """Reassignments in progress, of some partitions or of all."""
        return moves.in_progress(self._tenure, asked)

    def _at(self, now: int) -> ControllerTenure:
        self._tenure.now = now
        return self._tenure


def _on_failed_disks(response: LeaderAndIsrResponse, cluster: ClusterState) -> list[TopicPartition]:
    failed = []
    for topic in response.topics:
        known = cluster.by_id.get(topic.topic_id)
        if known is not None:
            failed += [
                TopicPartition(known.name, each.partition_index)
                for each in topic.partition_errors
                if each.error_code == Code.KAFKA_STORAGE_ERROR
            ]
    return failed


def _reports(
    response: DescribeReplicasResponse, cluster: ClusterState
) -> dict[TopicPartition, ReplicaReport]:
    found = {}
    for topic in response.topics:
        known = cluster.by_id.get(topic.topic_id)
        for each in topic.replicas if known is not None else ():
            assert known is not None
            found[TopicPartition(known.name, each.partition_index)] = ReplicaReport(
                ReplicaCompleteness(each.copy),
                each.clean,
                each.last_epoch,
                each.end_offset,
                each.reason,
            )
    return found


def _deleted_topics(request: StopReplicaRequest) -> list[str]:
    return [
        topic.topic_name
        for topic in request.topic_states
        if any(each.leader_epoch == EPOCH_DELETED for each in topic.partition_states)
    ]
