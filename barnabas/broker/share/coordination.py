"""Carries out what the share coordinator decides, on this broker's logs and loop.

In: requests about the state of share partitions; partitions of __share_group_state that this broker
begins and ceases to lead; time. Out: answers, now or later; logs that are pruned.
Always: nothing is answered from a shard that is still being read back.
Not here: the decisions (coordinators/share), requests of other brokers (state_messages.py), where
the coordinator of a share partition is (states.py), loading and unloading (broker/shards).
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.broker.context import GroupsContext
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.partition import Partition
from barnabas.broker.role import Role
from barnabas.broker.shards.led_shards import Coordinator, LedShards
from barnabas.broker.topic import SHARE_STATE_TOPIC
from barnabas.coordinators.runtime import Now, Outcome
from barnabas.coordinators.share.keys import StateKey, state_partition_of
from barnabas.coordinators.share.records import ShareRecord
from barnabas.coordinators.share.state_shard import (
    PruneBelow,
    ShareStateShard,
    StateAnswer,
    StateLimits,
)
from barnabas.model.errors import Code, KafkaError

if TYPE_CHECKING:
    from barnabas.broker.share.states import ShareStates

SWEEP_S = 30.0  # after a shard was loaded: until then a broker of a cluster learns all topics
ShareOperation = Callable[[ShareStateShard, object, Now], Outcome[ShareRecord]]


def share_states(broker: GroupsContext) -> "ShareStates":
    """For the group coordinator: the state of share partitions, wherever it is kept."""
    from barnabas.broker.share.service import share_service

    return share_service(broker).states


class ShareCoordination(Coordinator[ShareStateShard]):
    """The share coordinator of one broker."""

    def __init__(self, broker: GroupsContext) -> None:
        self._broker = broker
        self._limits = StateLimits(
            updates_per_snapshot=(
                broker.config.share_coordinator_snapshot_update_records_per_snapshot
            )
        )
        self._creating: asyncio.Task[None] | None = None
        self.led: LedShards[ShareStateShard] = LedShards(
            broker, SHARE_STATE_TOPIC, "share state", self
        )
        self.runtime = self.led.runtime
        self.led.start()

    # Starting and stopping

    async def ready(self) -> None:
        """Make the topic if there is none."""
        if self._broker.topics.get(SHARE_STATE_TOPIC) is None:
            if self._creating is None or self._creating.done():
                self._creating = self._broker.loop.create_task(self._create_topic())
            await asyncio.shield(self._creating)
        self.led.take_up()

    def stop(self) -> None:
        """The logs are about to close: nothing more is written."""
        self.led.stop()

    async def _create_topic(self) -> None:
        config = self._broker.config
        overrides = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
        }
        if self._broker.cluster is not None:
            overrides["min.insync.replicas"] = str(config.share_coordinator_state_topic_min_isr)
        try:
            await self._broker.catalog.create_topic(
                SHARE_STATE_TOPIC, config.share_coordinator_state_topic_num_partitions, overrides
            )
        except KafkaError as error:
            if error.code is not Code.TOPIC_ALREADY_EXISTS:
                raise

    # The shards

    def new_shard(self, partition: Partition) -> ShareStateShard:
        return ShareStateShard(self._limits, self._exists)

    def _exists(self, topic_id: UUID, partition: int) -> bool:
        topic = self._broker.topics.by_id(topic_id)
        return topic is not None and partition < len(topic.partitions)

    def load(self, index: int, partition: Partition) -> None:
        bytes_at_once = self._broker.config.share_coordinator_load_buffer_size
        self.led.keep(self.led.load_from_log(index, partition, bytes_at_once))

    def shard_loaded(self, index: int) -> None:
        wait_s = 0.0 if self._broker.cluster is None else SWEEP_S
        self._broker.loop.call_later(wait_s, self._sweep, index, self.led.term(index))

    def _sweep(self, index: int, term: int) -> None:
        """Delete the state of topics that were deleted while the shard was not loaded."""
        cluster = self._broker.cluster
        if not self.led.is_term(index, term) or not self.runtime.is_active(index):
            return
        if cluster is not None and not cluster.registered.is_set():
            return
        ids = {key.topic_id for key in self.runtime.shard(index).states}
        self._forget(index, frozenset(id_ for id_ in ids if self._broker.topics.by_id(id_) is None))

    def records_committed(self, index: int) -> None:
        self._prune()

    def deadlines_handled(self) -> None:
        self._prune()

    # Requests

    def index_of(self, key: StateKey) -> int:
        """The shard of a share partition; NOT_COORDINATOR until the topic exists."""
        return state_partition_of(key, self.led.total())

    def leader_of(self, index: int) -> int:
        """The broker that has the shard; -1 if there is none now."""
        return self.led.leader_of(index)

    def run(self, index: int, operation: ShareOperation) -> DeferredReply[StateAnswer]:
        """Run an operation on a shard of this broker; a KafkaError if it cannot be asked."""
        deferred: DeferredReply[StateAnswer] = DeferredReply()
        now = self.led.now()
        shard = self.runtime.shard(index)
        self.led.deliver(self.runtime.carry_out(index, operation(shard, deferred, now), now))
        self.led.arm(shard.next_deadline())
        return deferred

    def topic_deleted(self, topic_id: UUID) -> None:
        """The state of its share partitions is deleted from this broker's shards."""
        for index in self.runtime.partitions():
            if self.runtime.is_active(index) and not self.led.stopped:
                self._forget(index, frozenset((topic_id,)))

    def _forget(self, index: int, topic_ids: frozenset[UUID]) -> None:
        outcome = self.runtime.shard(index).topics_deleted(topic_ids)
        if outcome.records:
            self.led.deliver(self.runtime.carry_out(index, outcome, self.led.now()))

    def shards_loaded(self) -> list[ShareStateShard]:
        """Those that can be looked at now."""
        return self.led.loaded()

    def _prune(self) -> None:
        for index, effect in self.runtime.take_effects():
            assert isinstance(effect, PruneBelow)
            if self.led.topic is None:
                continue
            partition = self.led.topic.partitions[index]
            if partition.role is Role.LEADER and effect.offset > partition.log.start_offset:
                try:
                    partition.log.delete_before(effect.offset)
                except KafkaError:
                    continue  # it is tried again with the next one
                if partition.leading is not None:
                    partition.leading.committed()  # followers get the new log start
