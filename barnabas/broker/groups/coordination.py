"""Executes what the group coordinator decides: on this broker's logs, event loop and connections.

In: requests about groups, from their handlers; partitions of __consumer_offsets that this broker
starts or stops leading. Out: replies, now or later.
Always: a shard that is loading, or whose partition another broker leads, answers no request; a
request that waits when this broker stops leading is answered with NOT_COORDINATOR.
Not here: the decisions (coordinators/groups), what a shard sees of the broker (ports.py), which
shards this broker has (broker/shards), loading them (loading.py), offsets of deleted topics
(deleted_topics.py), the format of requests (handlers/).

Created at the start of a broker that has groups in its logs, otherwise with the first request about
a group: a broker without groups never imports any of it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from barnabas.broker.context import GroupsContext
from barnabas.broker.groups.committed import Reply, when_committed
from barnabas.broker.groups.deleted_topics import forget_offsets
from barnabas.broker.groups.loading import GroupLoading
from barnabas.broker.groups.offsets_topic import create_offsets_topic
from barnabas.broker.groups.ports import (
    TopicsSeen,
    caller_of,
    group_limits,
    limits,
)
from barnabas.broker.groups.rates import SAMPLE_MS, GroupRates
from barnabas.broker.groups.rebalance_log import log_rebalances
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.broker.partition import Partition
from barnabas.broker.shards.led_shards import NO_LEADER, Coordinator, LedShards
from barnabas.broker.topic import OFFSETS_TOPIC, Topic
from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.history.statistics import RebalanceStatistics
from barnabas.coordinators.groups.records import Record, partition_of
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.coordinators.ports import TransactionMarker
from barnabas.coordinators.runtime import Now, Outcome
from barnabas.keeper.paths import GROUPS
from barnabas.model.errors import KafkaError
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from barnabas.broker.groups.internal_topics import InternalTopicCreation

__all__ = ["Coordination", "GroupOperation", "Reply", "coordination"]

SWEEP_S = 30.0  # after a shard was loaded: until then the broker gets to know all topics
LOAD_WAIT_S_MAX = 0.5

GroupOperation = Callable[[GroupShard, Caller, Now], Outcome[Record]]


def coordination(broker: GroupsContext) -> "Coordination":
    """The broker's coordination, created on first use."""
    if broker.coordination is None:
        broker.coordination = Coordination(broker)
    return broker.coordination


class Coordination(Coordinator[GroupShard]):
    """The group coordinator of one broker."""

    def __init__(self, broker: GroupsContext) -> None:
        self._broker = broker
        self._clock = broker.clock
        self._loop = broker.loop
        self.rebalance_statistics = RebalanceStatistics()
        self.since_ms = self._clock.wall_ms()  # the rebalance histories begin here
        self.pace = GroupRates(broker.topics)
        self.led: LedShards[GroupShard] = LedShards(broker, OFFSETS_TOPIC, "groups", self)
        self.runtime = self.led.runtime
        self._loading = GroupLoading(broker, self.led)
        self._own_limits: dict[str, dict[str, int]] = {
            name: group_limits(settings)
            for (kind, name), settings in broker.catalog.entities.items()
            if kind == GROUPS
        }
        self._shared = limits(broker.config, self._own_limits)
        self._sampler: asyncio.TimerHandle | None = None
        self.internal_topics: InternalTopicCreation | None = None  # of streams groups
        self.led.start()

    # Starting and stopping

    async def ready(self) -> None:
        """Create the topic if it is missing; wait a moment for shards that are loading."""
        if self._broker.topics.get(OFFSETS_TOPIC) is None:
            await create_offsets_topic(self._broker)
        self.led.take_up()
        if self._loading.task is not None:
            await asyncio.wait((self._loading.task,), timeout=LOAD_WAIT_S_MAX)

    def stop(self) -> None:
        """The logs are about to close: nothing more is written."""
        self.led.stop()
        self._loading.stop()
        if self._sampler is not None:
            self._sampler.cancel()

    def group_configured(self, group_id: str) -> None:
        """The settings of a group changed: they apply from its members' next heartbeats."""
        settings = self._broker.catalog.entities.get((GROUPS, group_id), {})
        self._own_limits[group_id] = group_limits(settings)
        for index in self.runtime.partitions():
            with suppress(KafkaError):  # a shard that is loading reads the settings afterwards
                self.runtime.shard(index).configured(group_id)

    # The shards

    def topic_found(self, topic: Topic) -> None:
        self._loading.stop()
        self._shared = limits(self._broker.config, self._own_limits)
        for name, (_, ends) in self._broker.catalog.deleted_topic_offsets.items():
            for index, end in ends.items():
                self._loading.doom(index, name, end)
        if self._sampler is None:
            self._sampler = self._loop.call_later(SAMPLE_MS / 1000, self._sample)

    def new_shard(self, partition: Partition) -> GroupShard:
        return GroupShard(self._shared, self.rebalance_statistics, TopicsSeen(self._broker))

    def load(self, index: int, partition: Partition) -> None:
        self._loading.add(index, partition)

    def shard_loaded(self, index: int) -> None:
        if self._broker.cluster is not None:
            self._loop.call_later(SWEEP_S, self._sweep, index, self.led.term(index))

    def shard_unloading(self, index: int) -> None:
        self._loading.drop(index)

    def deadlines_handled(self) -> None:
        log_rebalances(self._broker.log, self.rebalance_statistics)

    # In a cluster

    def leader_of(self, group_id: str) -> int:
        """The broker that coordinates the group; -1 if there is none now."""
        self.led.take_up()
        if self.led.topic is None:
            return NO_LEADER
        return self.led.leader_of(self.partition_of(group_id))

    def topic_gone(self, name: str) -> None:
        """The controller deleted the topic: each broker removes its offsets from its own shards."""
        self._forget([name])

    def _sweep(self, index: int, term: int) -> None:
        """Remove offsets of topics that were deleted while the shard had no leader."""
        cluster = self._broker.cluster
        if not self.led.is_term(index, term) or not self.runtime.is_active(index):
            return
        if cluster is None or not cluster.registered.is_set():
            return
        topics = self._broker.topics
        self._forget_shares(index, None)
        groups = self.runtime.shard(index).offsets.by_group.values()
        names = dict.fromkeys(name for found in groups for name in found)
        gone = [name for name in names if topics.get(name) is None]
        if gone:
            self._forget(gone)

    def _forget(self, names: list[str]) -> None:
        self.start(self._forget_all(names))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.led.keep(work)

    def _forget_shares(self, index: int, names: frozenset[str] | None) -> None:
        """The state of share groups in topics that were deleted, these or any."""
        self.apply(index, lambda shard, _: shard.share.forget_topics(names))

    async def _forget_all(self, names: list[str]) -> None:
        for name in names:
            if self.led.topic is not None and not self.led.stopped:
                await self.topic_deleted(name)

    # Requests

    def partition_of(self, group_id: str) -> int:
        """NOT_COORDINATOR until the topic exists: FindCoordinator creates it."""
        return partition_of(group_id, self.led.total())

    def run(self, group_id: str, operation: GroupOperation, call: Call) -> Reply:
        """Run an operation on the group's shard; its reply may wait for members, or for the log."""
        return self.run_on(self.partition_of(group_id), operation, call)

    def run_on(self, partition: int, operation: GroupOperation, call: Call) -> Reply:
        deferred: DeferredReply[ProtocolMessage] = DeferredReply()
        caller = caller_of(call, deferred)
        now = self.now()
        shard = self.runtime.shard(partition)
        answers = self.runtime.carry_out(partition, operation(shard, caller, now), now)
        self.led.arm(shard.next_deadline())
        if shard.share.asks:
            self._initialize_shares(partition, shard)
        if self.rebalance_statistics.unlogged:
            log_rebalances(self._broker.log, self.rebalance_statistics)
        if len(answers) == 1 and answers[0].token is deferred:
            return answers[0].response
        self.led.deliver(answers)
        return deferred.take() if deferred.done else deferred

    def end_transaction(
        self, partition: int, marker: TransactionMarker, response: WriteTxnMarkersResponse
    ) -> DeferredReply[ProtocolMessage]:
        """Write a marker to a shard's log; reply with `response` when it is committed."""
        deferred: DeferredReply[ProtocolMessage] = DeferredReply()
        caller = Caller(deferred, 0, "", "")
        shard = self.runtime.shard(partition)
        outcome = shard.end_transaction_of(marker, response, caller)
        self.led.deliver(self.runtime.carry_out(partition, outcome, self.now()))
        return deferred

    def apply(self, index: int, operation: Callable[[GroupShard, Now], Outcome[Record]]) -> None:
        """Run an operation that no request waits for; nothing if the shard is not here."""
        if self.runtime.is_active(index) and not self.led.stopped:
            shard, now = self.runtime.shard(index), self.now()
            self.led.deliver(self.runtime.carry_out(index, operation(shard, now), now))
            self.led.arm(shard.next_deadline())

    async def committed(self, index: int) -> bool:
        """Wait until the state of a shard is committed; False if this broker lost it."""
        told: asyncio.Future[bool] = self._loop.create_future()
        if self.runtime.is_settled(index, told.set_result):
            return self.runtime.is_active(index)
        return await told

    def _initialize_shares(self, index: int, shard: GroupShard) -> None:
        from barnabas.broker.groups.share_groups import initialize

        for asked in shard.share.take_initializations():
            self.start(initialize(self._broker, self, index, asked))

    def look(
        self, look: Callable[[], ProtocolMessage], group_ids: Iterable[str] | None = None
    ) -> Reply:
        """Read these groups, or all; the reply leaves when the state that was read is committed."""
        response = look()
        if group_ids is None:
            indexes = self.runtime.partitions()
        elif self.led.topic is None:
            return response
        else:
            indexes = tuple({self.partition_of(each) for each in group_ids})
        return when_committed(self.runtime, indexes, response, lambda: self.look(look, group_ids))

    def shard_of(self, group_id: str) -> GroupShard:
        """Read only."""
        return self.runtime.shard(self.partition_of(group_id))

    def shards(self) -> list[GroupShard]:
        """All shards, read only; COORDINATOR_LOAD_IN_PROGRESS while one is loading."""
        return self.led.all_of_them()

    def topics_changed(self, name: str, *, of_names: bool) -> None:
        """Groups of the consumer protocol that read the topic see the change at a heartbeat."""
        for index in self.runtime.partitions():
            with suppress(KafkaError):  # a shard that is loading reads the topics anyway
                self.runtime.shard(index).topics_changed(frozenset((name,)), of_names=of_names)

    async def topic_deleted(self, name: str) -> dict[int, int]:
        """Remove its offsets. No topic of the same name can be created before this returns.

        Out: the shards whose logs could not be written yet, and the offset below which they may
        have offsets of it."""
        self.topics_changed(name, of_names=True)
        self.led.take_up()
        topic = self.led.topic
        assert topic is not None
        ours = None if self._broker.cluster is None else self.led.epochs.keys()
        left = await forget_offsets(name, topic.partitions, ours, self.runtime, self._loading)
        for index in self.runtime.partitions():
            self._forget_shares(index, frozenset((name,)))
        if left:
            self._broker.log.warning("offsets of a deleted topic not removed yet", topic=name)
        return left

    # Time and answers

    def now(self) -> Now:
        return self.led.now()

    def _sample(self) -> None:
        self._sampler = self._loop.call_later(SAMPLE_MS / 1000, self._sample)
        if not self.runtime.is_loading():
            live = ((id_, shard.offsets) for shard in self.shards() for id_ in shard.live())
            self.pace.sample(live, self.now())
