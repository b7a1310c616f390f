"""The requests that the controller sends to brokers, and what a broker may rely on.

LeaderAndIsr, to brokers that have a replica. A replica applies a state whose leader epoch is
larger than its own, or equal with a larger partition epoch: then only the in-sync set or the
replicas have changed, and the leader continues without interruption. Leader -1: no leader, the
replica waits. `is_new`: a log that does not exist is created. A broker that should lead without
a log, and without `leader_recovery_state`, refuses with KAFKA_STORAGE_ERROR. `type` 2 is the first
to a broker that has registered, and lists all of its replicas: a log that it does not list is a
stray, which is renamed, not deleted.
DescribeReplicas, to brokers with replicas of partitions that have no leader. It is sent before
anything else about these partitions, so that a missing log is not created before the report.
StopReplica: `delete_partition` says whether the log is deleted too. Leader epoch -2 stops the
replica in any state: its topic is deleted. Otherwise it is the epoch of the latest state, and a
replica with a larger epoch ignores the request.
UpdateMetadata, to all: `type` 2 replaces all metadata; otherwise the listed topics and partitions
are new or changed. All live brokers are always listed. Offline replicas are those at the time of
the request; when a broker is no longer listed, its replicas are offline too. Leader -2: the topic
is deleted.
Each request carries the epoch of the receiving broker and of the controller.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence

from barnabas.controller.state import (
    NO_LEADER,
    BrokerInfo,
    ClusterState,
    PartitionLeadership,
    PartitionView,
    TopicView,
)
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.messages.describe_replicas import AskedTopic, DescribeReplicasRequest
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

SOME, ALL = 1, 2  # `type`
DELETED = BrokerId(-2)  # as leader
EPOCH_DELETED = -2  # as leader epoch
_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class RequestBuilder:
    """Builds the requests of one controller tenure."""

    def __init__(self, controller: BrokerId, epoch: int) -> None:
        self.controller = controller
        self.epoch = epoch

    def leader_and_isr(
        self,
        to: BrokerInfo,
        partitions: Iterable[PartitionView],
        live: Mapping[BrokerId, BrokerInfo],
        *,
        new: Container[PartitionView] = (),
        type_: int = SOME,
    ) -> LeaderAndIsrRequest:
        """For partitions that have a state."""
        leaders: dict[BrokerId, None] = {}
        topics: dict[TopicView, list[LeaderAndIsrPartitionState]] = {}
        for partition in partitions:
            state = partition.state
            assert state is not None
            leaders[state.leader] = None
            assignment = partition.assignment
            topics.setdefault(partition.topic, []).append(
                LeaderAndIsrPartitionState(
                    partition_index=partition.name.partition,
                    controller_epoch=state.controller_epoch,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=list(state.isr),
                    partition_epoch=state.version,
                    replicas=list(assignment.replicas),
                    adding_replicas=list(assignment.adding),
                    removing_replicas=list(assignment.removing),
                    is_new=_is_new(partition, state, to, created=partition in new),
                    leader_recovery_state=int(state.recovering),
                )
            )
        return LeaderAndIsrRequest(
            controller_id=self.controller,
            controller_epoch=self.epoch,
            broker_epoch=to.epoch,
            type=type_,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name=topic.name, topic_id=topic.id, partition_states=states
                )
                for topic, states in topics.items()
            ],
            live_leaders=[
                LeaderAndIsrLiveLeader(
                    broker_id=id_,
                    host_name=live[id_].endpoints[0].host,
                    port=live[id_].endpoints[0].port,
                )
                for id_ in leaders
                if id_ in live and live[id_].endpoints
            ],
        )

    def describe_replicas(
        self, to: BrokerInfo, partitions: Iterable[PartitionView]
    ) -> DescribeReplicasRequest:
        topics: dict[TopicView, list[int]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition.name.partition)
        return DescribeReplicasRequest(
            controller_id=self.controller,
            controller_epoch=self.epoch,
            broker_epoch=to.epoch,
            topics=[
                AskedTopic(topic_name=topic.name, topic_id=topic.id, partitions=indexes)
                for topic, indexes in topics.items()
            ],
        )

    def stop_replica(
        self, to: BrokerInfo, partitions: Mapping[TopicPartition, int], *, delete: bool
    ) -> StopReplicaRequest:
        """Partitions with their leader epochs."""
        topics: defaultdict[str, list[StopReplicaPartitionState]] = defaultdict(list)
        for name, epoch in partitions.items():
            topics[name.topic].append(
                StopReplicaPartitionState(
                    partition_index=name.partition, leader_epoch=epoch, delete_partition=delete
                )
            )
        return StopReplicaRequest(
            controller_id=self.controller,
            controller_epoch=self.epoch,
            broker_epoch=to.epoch,
            topic_states=[
                StopReplicaTopicState(topic_name=topic, partition_states=states)
                for topic, states in topics.items()
            ],
        )

    def update_metadata(
        self,
        to: BrokerInfo,
        topics: Sequence[UpdateMetadataTopicState],
        live: Sequence[UpdateMetadataBroker],
        *,
        type_: int = SOME,
    ) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            controller_id=self.controller,
            type=type_,
            controller_epoch=self.epoch,
            broker_epoch=to.epoch,
            topic_states=list(topics),
            live_brokers=list(live),
        )

    def described(
        self, partitions: Iterable[PartitionView], cluster: ClusterState
    ) -> list[UpdateMetadataTopicState]:
        """For UpdateMetadata, the same for all brokers."""
        topics: dict[TopicView, list[UpdateMetadataPartitionState]] = {}
        for partition in partitions:
            state = partition.state
            replicas = partition.assignment.replicas
            topics.setdefault(partition.topic, []).append(
                UpdateMetadataPartitionState(
                    partition_index=partition.name.partition,
                    controller_epoch=self.epoch if state is None else state.controller_epoch,
                    leader=NO_LEADER if state is None else state.leader,
                    leader_epoch=-1 if state is None else state.leader_epoch,
                    isr=[] if state is None else list(state.isr),
                    zk_version=-1 if state is None else state.version,
                    replicas=list(replicas),
                    offline_replicas=[
                        each for each in replicas if not cluster.online(each, partition)
                    ],
                )
            )
        return [
            UpdateMetadataTopicState(
                topic_name=topic.name, topic_id=topic.id, partition_states=states
            )
            for topic, states in topics.items()
        ]

    def deleted(self, topic: TopicView) -> UpdateMetadataTopicState:
        return UpdateMetadataTopicState(
            topic_name=topic.name,
            topic_id=topic.id,
            partition_states=[
                UpdateMetadataPartitionState(
                    partition_index=partition.name.partition,
                    controller_epoch=self.epoch,
                    leader=DELETED,
                    leader_epoch=EPOCH_DELETED,
                    isr=[],
                    zk_version=-1,
                    replicas=[],
                    offline_replicas=[],
                )
                for partition in topic.partitions
            ],
        )


def _is_new(
    partition: PartitionView, state: PartitionLeadership, to: BrokerInfo, *, created: bool
) -> bool:
    """Whether there was no log before. `created`: in this event, the partition was created or
    replicas were added.

    A broker that is in sync in its present registration cannot have lost a log since: a missing log
    was never created, because the controller that created the partition stopped. One that is in
    sync from an earlier registration may have lost its log.
    """
    if to.id in state.isr:
        return state.epoch_of(to.id) == to.epoch
    assignment = partition.assignment
    return created and (to.id in assignment.adding or not assignment.moving)


def live_brokers(brokers: Iterable[BrokerInfo]) -> list[UpdateMetadataBroker]:
    return [
        UpdateMetadataBroker(
            id=broker.id,
            endpoints=[
                UpdateMetadataEndpoint(
                    port=each.port,
                    host=each.host,
                    listener=each.listener,
                    security_protocol=_PROTOCOLS.get(each.protocol, 0),
                )
                for each in broker.endpoints
            ],
            rack=broker.rack,
        )
        for broker in brokers
    ]
