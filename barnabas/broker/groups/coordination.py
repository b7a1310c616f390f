"""Executes what the group coordinator decides: on this broker's logs, event loop and connections.

In: requests about groups, from their handlers; partitions of __consumer_offsets that this broker
starts or stops leading. Out: replies, now or later.
Always: a shard that is loading, or whose partition another broker leads, answers no request; a
request that waits when this broker stops leading is answered with NOT_COORDINATOR.
Not here: the decisions (coordinators/groups), what a shard sees of the broker (ports.py), loading
shards (loading.py), offsets of deleted topics (deleted_topics.py), the format of requests
(handlers/).

Created at the start of a broker that has groups in its logs, otherwise with the first request about
a group: a broker without groups never imports any of it.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from traceback import format_exception

from barnabas.broker.context import GroupsContext
from barnabas.broker.groups.deleted_topics import forget_offsets
from barnabas.broker.groups.loading import GroupLoading
from barnabas.broker.groups.ports import PartitionJournal, TopicsSeen, group_limits, limits
from barnabas.broker.groups.rates import SAMPLE_MS, GroupRates
from barnabas.broker.groups.rebalance_log import log_rebalances
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.broker.partition import Partition
from barnabas.broker.role import Role
from barnabas.broker.topic import OFFSETS_TOPIC, Topic
from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.history.statistics import RebalanceStatistics
from barnabas.coordinators.groups.records import Record, partition_of
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.coordinators.ports import TransactionMarker
from barnabas.coordinators.runtime import Now, Outcome, Runtime, ShardReply
from barnabas.keeper.paths import GROUPS
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersResponse

SWEEP_S = 30.0  # after a shard was loaded: until then the broker gets to know all topics
LOAD_WAIT_S_MAX = 0.5

Reply = ProtocolMessage | DeferredReply[ProtocolMessage]
GroupOperation = Callable[[GroupShard, Caller, Now], Outcome[Record]]


def coordination(broker: GroupsContext) -> "Coordination":
    """The broker's coordination, created on first use."""
    if broker.coordination is None:
        broker.coordination = Coordination(broker)
    return broker.coordination


class Coordination:
    """The group coordinator of one broker."""

    def __init__(self, broker: GroupsContext) -> None:
        self._broker = broker
        self._clock = broker.clock
        self._loop = broker.loop
        self.runtime: Runtime[GroupShard] = Runtime()
        self.rebalance_statistics = RebalanceStatistics()
        self.since_ms = self._clock.wall_ms()  # the rebalance histories begin here
        self.pace = GroupRates(broker.topics)
        self._topic: Topic | None = None
        self._partitions = 0  # when the shards were loaded: a group must not move to another one
        self._loading = GroupLoading(broker, self.runtime, self.now, self._loaded, self._not_loaded)
        self._terms: dict[int, int] = {}  # by shard: how often this broker has loaded it
        self._epochs: dict[int, int] = {}  # by loaded shard: the leader epoch
        self._own_limits: dict[str, dict[str, int]] = {
            name: group_limits(settings)
            for (kind, name), settings in broker.catalog.entities.items()
            if kind == GROUPS
        }
        self._shared = limits(broker.config, self._own_limits)
        self._forgetting: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._stopped = False
        self._sampler: asyncio.TimerHandle | None = None
        if broker.replicas is not None:
            broker.replicas.watch(OFFSETS_TOPIC, self._led)
        self.take_up()

    # Starting and stopping

    async def ready(self) -> None:
        """Create the topic if it is missing; wait a moment for shards that are loading."""
        if self._broker.topics.get(OFFSETS_TOPIC) is None:
            await self._create_topic()
        self.take_up()
        if self._loading.task is not None:
            await asyncio.wait((self._loading.task,), timeout=LOAD_WAIT_S_MAX)

    def stop(self) -> None:
        """The logs are about to close: nothing more is written."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._loading.stop()
        for task in self._forgetting:
            task.cancel()
        if self._sampler is not None:
            self._sampler.cancel()

    def group_configured(self, group_id: str) -> None:
        """The settings of a group changed: they apply from its members' next heartbeats."""
        settings = self._broker.catalog.entities.get((GROUPS, group_id), {})
        self._own_limits[group_id] = group_limits(settings)
        for index in self.runtime.partitions():
            with suppress(KafkaError):  # a shard that is loading reads the settings afterwards
                self.runtime.shard(index).configured(group_id)

    async def _create_topic(self) -> None:
        config = self._broker.config
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
        try:
            await self._broker.catalog.create_topic(
                OFFSETS_TOPIC, config.offsets_topic_num_partitions, overrides
            )
        except KafkaError as error:
            if error.code is not Code.TOPIC_ALREADY_EXISTS:
                raise

    def take_up(self) -> None:
        """Load this broker's shards, once; not before the number of partitions is known."""
        topic = self._broker.topics.get(OFFSETS_TOPIC)
        if topic is None or topic is self._topic or self._stopped:
            return
        cluster = self._broker.cluster
        if cluster is not None and not cluster.view.is_whole(topic):
            return
        self._loading.stop()  # the topic was deleted and created again
        for index in self.runtime.partitions():
            self._deliver(self.runtime.unload(index))
        self._topic = topic
        self._partitions = len(topic.partitions)
        self._shared = limits(self._broker.config, self._own_limits)
        for name, (_, ends) in self._broker.catalog.deleted_topic_offsets.items():
            for index, end in ends.items():
                self._loading.doom(index, name, end)
        for index, partition in enumerate(topic.partitions):
            # An offline partition may have commits: no reply may say that there are none.
            if partition.role is Role.LEADER:
                self._take_up_one(index, partition)
        if self._sampler is None:
            self._sampler = self._loop.call_later(SAMPLE_MS / 1000, self._sample)

    def _take_up_one(self, index: int, partition: Partition) -> None:
        """The shard answers at once if its log is empty, otherwise when it is loaded."""
        self._terms[index] = term = self._terms.get(index, 0) + 1
        self._epochs[index] = partition.leader_epoch
        partition.on_commit = partial(self._committed, index)
        partition.on_leadership_lost = partial(self._loop.call_soon, self._lost, index, term)
        journal = PartitionJournal(partition)
        shard = GroupShard(self._shared, self.rebalance_statistics, TopicsSeen(self._broker.topics))
        self.runtime.start_loading(index, shard, journal)
        if partition.log.end_offset > partition.log.start_offset:
            self._loading.add(index, partition)
        else:
            self.runtime.finish_loading(index, self.now())
            self._loaded(index)

    def _loaded(self, index: int) -> None:
        self._arm(self.runtime.shard(index).next_deadline())
        if self._broker.cluster is not None:
            self._loop.call_later(SWEEP_S, self._sweep, index, self._terms[index])

    def _not_loaded(self, index: int, error: Exception) -> None:
        self._deliver(self.runtime.unload(index))
        self._broker.log.error(
            "groups not loaded", partition=f"{OFFSETS_TOPIC}-{index}", reason=repr(error)
        )

    def _committed(self, index: int) -> None:
        """Records that waited for a sync or for other replicas are committed."""
        self._deliver(self.runtime.watermark_moved(index))

    def _lost(self, index: int, term: int) -> None:
        """The log is offline, deleted, or led by another broker: answer the waiting requests.

        Called by the event loop after the code that noticed it."""
        if self._terms.get(index) == term and not self._stopped:
            self._loading.drop(index)
            self._epochs.pop(index, None)
            self._deliver(self.runtime.unload(index))

    # In a cluster

    def _led(self, partition: Partition) -> None:
        """This broker leads the partition now: load its shard from the log."""
        index = partition.name.partition
        self.take_up()
        if self._topic is None or self._stopped or index >= self._partitions:
            return  # loaded when all partitions of the topic are known
        if (
            self._topic.partitions[index] is partition
            and self._epochs.get(index) != partition.leader_epoch
        ):
            self._lost(index, self._terms.get(index, 0))
            self._take_up_one(index, partition)

    def leader_of(self, group_id: str) -> int:
        """The broker that coordinates the group; -1 if there is none now."""
        self.take_up()
        if self._topic is None:
            return -1
        return self._topic.partitions[partition_of(group_id, self._partitions)].leader

    def topic_gone(self, name: str) -> None:
        """The controller deleted the topic: each broker removes its offsets from its own shards."""
        self._forget([name])

    def _sweep(self, index: int, term: int) -> None:
        """Remove offsets of topics that were deleted while the shard had no leader."""
        cluster = self._broker.cluster
        if self._terms.get(index) != term or not self.runtime.is_active(index) or self._stopped:
            return
        if cluster is None or not cluster.registered.is_set():
            return
        topics = self._broker.topics
        groups = self.runtime.shard(index).offsets.by_group.values()
        names = dict.fromkeys(name for found in groups for name in found)
        gone = [name for name in names if topics.get(name) is None]
        if gone:
            self._forget(gone)

    def _forget(self, names: list[str]) -> None:
        task = self._loop.create_task(self._forget_all(names))
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)

    async def _forget_all(self, names: list[str]) -> None:
        for name in names:
            if self._topic is not None and not self._stopped:
                await self.topic_deleted(name)

    # Requests

    def partition_of(self, group_id: str) -> int:
        """NOT_COORDINATOR until the topic exists: FindCoordinator creates it."""
        self.take_up()
        if self._topic is None:
            raise Retriable(Code.NOT_COORDINATOR, f"topic {OFFSETS_TOPIC} does not exist yet")
        return partition_of(group_id, self._partitions)

    def run(self, group_id: str, operation: GroupOperation, call: Call) -> Reply:
        """Run an operation on the group's shard; its reply may wait for members, or for the log."""
        return self.run_on(self.partition_of(group_id), operation, call)

    def run_on(self, partition: int, operation: GroupOperation, call: Call) -> Reply:
        deferred: DeferredReply[ProtocolMessage] = DeferredReply()
        caller = caller_of(call, deferred)
        now = self.now()
        shard = self.runtime.shard(partition)
        answers = self.runtime.carry_out(partition, operation(shard, caller, now), now)
        self._arm(shard.next_deadline())
        if self.rebalance_statistics.unlogged:
            log_rebalances(self._broker.log, self.rebalance_statistics)
        if len(answers) == 1 and answers[0].token is deferred:
            return answers[0].response
        self._deliver(answers)
        return deferred.take() if deferred.done else deferred

    def end_transaction(
        self, partition: int, marker: TransactionMarker, response: WriteTxnMarkersResponse
    ) -> DeferredReply[ProtocolMessage]:
        """Write a marker to a shard's log; reply with `response` when it is committed."""
        deferred: DeferredReply[ProtocolMessage] = DeferredReply()
        caller = Caller(deferred, 0, "", "")
        shard = self.runtime.shard(partition)
        outcome = shard.end_transaction_of(marker, response, caller)
        self._deliver(self.runtime.carry_out(partition, outcome, self.now()))
        return deferred

    def look(
        self, look: Callable[[], ProtocolMessage], group_ids: Iterable[str] | None = None
    ) -> Reply:
        """Read these groups, or all; the reply leaves when the state that was read is committed."""
        response = look()
        if group_ids is None:
            indexes = self.runtime.partitions()
        elif self._topic is None:
            return response
        else:
            indexes = tuple({partition_of(each, self._partitions) for each in group_ids})
        deferred: DeferredReply[ProtocolMessage] = DeferredReply()
        left = 0
        lost = False

        def tell(committed: bool) -> None:
            nonlocal left, lost
            left -= 1
            lost = lost or not committed
            if left:
                return
            again = self.look(look, group_ids) if lost else response
            if isinstance(again, DeferredReply):
                again.then(deferred.set)
            else:
                deferred.set(again)

        left = sum(not self.runtime.is_settled(index, tell) for index in indexes)
        return deferred if left else response

    def shard_of(self, group_id: str) -> GroupShard:
        """Read only."""
        return self.runtime.shard(self.partition_of(group_id))

    def shards(self) -> list[GroupShard]:
        """All shards, read only; COORDINATOR_LOAD_IN_PROGRESS while one is loading."""
        self.take_up()
        return [self.runtime.shard(index) for index in self.runtime.partitions()]

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
        self.take_up()
        assert self._topic is not None
        ours = None if self._broker.cluster is None else self._epochs.keys()
        left = await forget_offsets(name, self._topic.partitions, ours, self.runtime, self._loading)
        if left:
            self._broker.log.warning("offsets of a deleted topic not removed yet", topic=name)
        return left

    # Time and answers

    def now(self) -> Now:
        return Now(self._clock.monotonic_ms(), self._clock.wall_ms())

    def _sample(self) -> None:
        self._sampler = self._loop.call_later(SAMPLE_MS / 1000, self._sample)
        if not self.runtime.is_loading():
            live = ((id_, shard.offsets) for shard in self.shards() for id_ in shard.live())
            self.pace.sample(live, self.now())

    def _deliver(self, answers: list[ShardReply]) -> None:
        for token, response in answers:
            assert isinstance(token, DeferredReply)
            try:
                token.set(response)
            except Exception as error:  # the other replies must still be sent
                self._failed("answer not given", error)

    def _failed(self, event: str, error: Exception) -> None:
        self._broker.counts.failures += 1
        trace = "".join(format_exception(error))
        self._broker.log.error(event, error=repr(error), trace=trace)

    def _arm(self, deadline_ms: int | None) -> None:
        if deadline_ms is None or self._stopped:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        wait_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        self._timer = self._loop.call_later(wait_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._stopped:
            return
        try:
            failed = partial(self._failed, "deadline of a group failed")
            self._deliver(self.runtime.expire(self.now(), failed))
            log_rebalances(self._broker.log, self.rebalance_statistics)
        finally:  # a fault in one group must not stop the clock of all
            self._arm(self.runtime.next_deadline())


def caller_of(call: Call, token: object) -> Caller:
    host, peer = f"/{call.connection.host}", call.connection.peer
    return Caller(token, call.version, call.client_id, host, peer, call.may_describe)
