"""Topics and partitions of the whole cluster, from the controller's UpdateMetadata.

In: UpdateMetadata. Out: the broker's topics; topics that were added and removed.
Always: every partition of a topic exists from 0 on; LeaderAndIsr decides about a replica on this
broker, except that a later UpdateMetadata may say that the replica has moved away.
Not here: whether the request is of the latest controller (membership.py), replicas here
(broker/replicas/roles.py).
"""

from typing import Protocol
from uuid import UUID

from barnabas.broker.cluster.settings import ClusterSettings
from barnabas.broker.context import TransactionsContext
from barnabas.broker.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic
from barnabas.config.resolve import Layers
from barnabas.config.topic import TopicConfig
from barnabas.model.ids import BrokerId, check_topic_name
from barnabas.replication.state import PartitionState
from barnabas.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

EVERYTHING = 2  # the type of a request that lists all topics
DELETED = -2  # as leader


class ViewContext(TransactionsContext, Protocol):
    """What this module needs of the broker."""

    layers: Layers


class MetadataUpdates:
    """Applied to `broker.topics`."""

    def __init__(self, broker: ViewContext, settings: ClusterSettings) -> None:
        self._broker = broker
        self._settings = settings
        # Topics of which all partitions have been listed, and their number: a replica on this
        # broker may be known before.
        self._whole: dict[UUID, int] = {}

    def is_whole(self, topic: Topic) -> bool:
        """LeaderAndIsr lists only the partitions on this broker."""
        return topic.id in self._whole

    def listed(self, topic: Topic) -> int:
        """How many partitions UpdateMetadata has listed; 0 if none yet."""
        return self._whole.get(topic.id, 0)

    def update(self, request: UpdateMetadataRequest) -> None:
        if request.type == EVERYTHING:
            named = {each.topic_id for each in request.topic_states}
            for topic in self._broker.topics:
                if topic.id not in named:
                    self.forget(topic)
        for state in request.topic_states:
            self._update_topic(state)

    def _update_topic(self, topic_state: UpdateMetadataTopicState) -> None:
        topic = self._broker.topics.by_id(topic_state.topic_id)
        if any(each.leader == DELETED for each in topic_state.partition_states):
            if topic is not None:
                self.forget(topic)
            return
        if topic is None:
            topic = self.topic(topic_state.topic_name, topic_state.topic_id)
        new = topic.id not in self._whole
        before = self._whole.get(topic.id, 0)
        for each in topic_state.partition_states:
            partition, state = topic.ensure_partition(each.partition_index), _state_of(each)
            if self._broker.replicas is not None:
                self._broker.replicas.update_metadata(topic, partition, state)
            partition.update_metadata(state)
        self._whole[topic.id] = len(topic.partitions)
        if new or len(topic.partitions) > before:
            self._broker.catalog.apply(topic)
            if topic.name == OFFSETS_TOPIC and new:
                from barnabas.broker.groups.coordination import coordination

                coordination(self._broker).led.take_up()
            elif topic.name == TRANSACTIONS_TOPIC and new:
                from barnabas.broker.transactions.coordination import transaction_coordination

                transaction_coordination(self._broker).led.take_up()
            elif self._broker.coordination is not None:
                self._broker.coordination.topics_changed(topic.name, of_names=new)

    def topic(self, name: str, id_: UUID) -> Topic:
        """The topic with this id, created if it is new; an older topic of its name is removed."""
        topics = self._broker.topics
        topic = topics.by_id(id_)
        if topic is not None:
            return topic
        check_topic_name(name)  # it becomes part of directory names
        before = topics.get(name)
        if before is not None:
            self.forget(before)
        overrides = self._settings.of_topic(name)
        topic = Topic(name, id_, TopicConfig(overrides, self._broker.layers), overrides)
        topics.add(topic)
        return topic

    def forget(self, topic: Topic) -> None:
        """Its logs, if any, are deleted by the controller's StopReplica."""
        self._broker.topics.remove(topic)
        self._whole.pop(topic.id, None)
        for partition in topic.partitions:
            partition.close()
        self._settings.topics.pop(topic.name, None)
        coordination = self._broker.coordination
        if coordination is not None:
            coordination.topic_gone(topic.name)
        if self._broker.share is not None:
            self._broker.share.coordination.topic_deleted(topic.id)


def _state_of(state: UpdateMetadataPartitionState) -> PartitionState:
    return PartitionState(
        leader=BrokerId(state.leader),
        leader_epoch=state.leader_epoch,
        isr=tuple(map(BrokerId, state.isr)),
        partition_epoch=state.zk_version,
        replicas=tuple(map(BrokerId, state.replicas)),
    )
