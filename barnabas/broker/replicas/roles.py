"""The replicas on this broker, as the controller wants them: who leads, who follows, what goes.

In: LeaderAndIsr and StopReplica. Out: partitions that lead or follow, and an answer for each.
Always: one message at a time, in the order they came; an older word never undoes a newer one.
Not here: what a leader and a follower decide (replication/), the logs under them (logs.py),
fetching (fetchers.py), what clients are told of partitions elsewhere (UpdateMetadata).

For the rooms around:
- `broker.replicas` is there in a cluster, None on a broker that stands alone.
- `Topic.partitions[i]` is there for every partition of the cluster. One that has no replica here
  is made by `absent_partition(name)` and told of its leader by `Partition.told(state)`, which
  never overrules what LeaderAndIsr said of a replica that is here.
- `watch(topic, led)` calls back when this broker begins to lead partitions of a topic;
  `Partition.on_lost` when it ceases to.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from barnabas.broker.catalog_interface import log_config
from barnabas.broker.cluster.peers import Peers
from barnabas.broker.partition import Partition
from barnabas.broker.replicas import failed_log_dirs as failed_disks
from barnabas.broker.replicas.fetchers import Fetchers
from barnabas.broker.replicas.isr_proposals import Proposals
from barnabas.broker.replicas.leading import LeaderReplica
from barnabas.broker.replicas.logs import describe, find_log, set_strays_aside
from barnabas.broker.replicas.sessions import ReplicaSessions
from barnabas.broker.replicas.throttles import Throttles
from barnabas.broker.role import Role
from barnabas.broker.storage.log_directory import storage_error
from barnabas.broker.topic import Topic
from barnabas.controller.proof import ReplicaCompleteness
from barnabas.log.config import LogConfig
from barnabas.model.errors import Code, Failed, Fenced, InvalidRequest, KafkaError
from barnabas.model.ids import NO_TOPIC_ID, BrokerId, TopicPartition
from barnabas.model.system_errors import OUT_OF_RESOURCES
from barnabas.replication.follower import Follower
from barnabas.replication.leader import IsrProposal
from barnabas.replication.state import PartitionState
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from barnabas.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

TICK_MS_MAX = 500
MADE_PER_SLICE = 50  # logs, before others get their turn
TOLD_PER_SLICE = 500  # partitions
ALL = 2  # the type of a LeaderAndIsr that names all replicas of a broker
STRAYS_S = 30.0
SAID_MAX = 20  # lines per request and event
NO_EPOCH = -1
EPOCH_OF_DELETION = -2


class ReplicaCluster(Protocol):
    """What is needed of the broker's place in the cluster (broker/cluster/membership.py)."""

    peers: Peers
    broker_epoch: int
    """Of this registration."""

    @property
    def members(self) -> Mapping[BrokerId, object]:
        """The brokers that are registered."""
        ...

    def admit(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> None:
        """Fenced, with STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH, unless it is to be obeyed."""
        ...

    async def learn(self, topics: Iterable[tuple[str, UUID]]) -> None:
        """Read the settings of topics that are new here."""
        ...

    def topic(self, name: str, id_: UUID) -> Topic:
        """The one with this id; its settings are known."""
        ...

    async def ask_controller(self, request: ProtocolMessage, timeout_ms: int) -> ProtocolMessage:
        """Its answer; Retriable when it is not known or does not answer."""
        ...

    def rack_of(self, broker: int) -> str | None: ...


class Replicas:
    """All replicas of one broker."""

    def __init__(self, broker: "Broker", cluster: ReplicaCluster) -> None:
        self._broker = broker
        self._cluster = cluster
        self.sessions = ReplicaSessions(broker)
        self.fetchers = Fetchers(broker, cluster)
        self.proposals = Proposals(broker, cluster)
        self.throttles = Throttles(broker)
        self._watchers: dict[str, list[Callable[[Partition], None]]] = {}
        self._restless: dict[LeaderReplica, None] = {}
        self._one_at_a_time = asyncio.Lock()
        self._strays: asyncio.TimerHandle | None = None
        # Incomplete replicas that were seen out of the in-sync set.
        self._seen_out: dict[TopicPartition, None] = {}
        self._unmarking = False
        self._said: dict[str, int] = {}  # lines of the request at hand
        self._timer: asyncio.TimerHandle | None = broker.loop.call_later(self._tick_s(), self._tick)

    def watch(self, topic: str, led: Callable[[Partition], None]) -> None:
        """Tell of the partitions of a topic that this broker begins to lead."""
        self._watchers.setdefault(topic, []).append(led)

    def rack_of(self, broker: int) -> str | None:
        return self._cluster.rack_of(broker)

    async def close(self) -> None:
        """Stop fetching; the logs are about to close."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._strays is not None:
            self._strays.cancel()
        await self.fetchers.close()
        await self.proposals.close()
        self.sessions.close()

    # For partitions that are led here

    def now_ms(self) -> int:
        return self._broker.clock.monotonic_ms()

    @property
    def lag_ms_max(self) -> int:
        return self._broker.config.replica_lag_time_max_ms

    def is_there(self, broker: BrokerId) -> bool:
        return broker in self._cluster.members

    def propose(self, leading: LeaderReplica, proposal: IsrProposal) -> None:
        topic = self._broker.topics.get(leading.partition.name.topic)
        if topic is not None:
            self.proposals.add(topic.id, leading, proposal)

    def restless(self, leading: LeaderReplica) -> None:
        self._restless[leading] = None

    def _tick_s(self) -> float:
        return min(TICK_MS_MAX, max(10, self.lag_ms_max // 4)) / 1000

    def _tick(self) -> None:
        self._timer = self._broker.loop.call_later(self._tick_s(), self._tick)
        for leading in list(self._restless):
            if leading.partition.leading is not leading or not leading.tick():
                del self._restless[leading]
        self.fetchers.sweep()

    # LeaderAndIsr

    async def lead_and_follow(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Begin to lead or to follow; logs that are not there yet are made."""
        async with self._one_at_a_time:
            self._admit(request)
            await self._cluster.learn(
                (each.topic_name, each.topic_id) for each in request.topic_states
            )
            self._admit(request)  # others may have had their turn
            answers = []
            logs = self._broker.logs.logs
            made, done = len(logs), 0
            self._mark_missing(request)
            for told in request.topic_states:
                topic = self._cluster.topic(told.topic_name, told.topic_id)
                config = log_config(topic.config, self._broker)
                errors = []
                for state in told.partition_states:
                    code = self._become(topic, config, state)
                    errors.append(
                        LeaderAndIsrPartitionError(
                            partition_index=state.partition_index, error_code=code
                        )
                    )
                    done += 1
                    if len(logs) - made >= MADE_PER_SLICE or done >= TOLD_PER_SLICE:
                        await asyncio.sleep(0)
                        self._admit(request)
                        config = log_config(topic.config, self._broker)
                        made, done = len(logs), 0
                answers.append(
                    LeaderAndIsrTopicError(topic_id=told.topic_id, partition_errors=errors)
                )
            self._sum_up()
            if request.type == ALL:
                self._look_for_strays()
        return LeaderAndIsrResponse(error_code=0, topics=answers)

    def _admit(self, request: LeaderAndIsrRequest | StopReplicaRequest) -> None:
        self._cluster.admit(request.controller_id, request.controller_epoch, request.broker_epoch)

    def _mark_missing(self, request: LeaderAndIsrRequest) -> None:
        """Logs that are not there and are not new: on disk before one of them is created. A log on
        an offline directory is not missing: no other log is created in its place. Nor is the log of
        a leader: the controller has chosen it though it has none, so nobody has more."""
        logs = self._broker.logs
        missing = []
        for told in request.topic_states:
            for state in told.partition_states:
                name = TopicPartition(told.topic_name, state.partition_index)
                log = logs.logs.get(name)
                there = log is not None and log.topic_id in (told.topic_id, NO_TOPIC_ID)
                offline = not state.is_new and logs.where_lost(name)
                led = state.leader == self._broker.id
                if not (there or offline or led or self._is_new(state)):
                    missing.append(name)
        logs.mark_incomplete(missing)

    def _is_new(self, told: LeaderAndIsrPartitionState) -> bool:
        """A replica that is added to a partition is new as well, but has something to copy."""
        return told.is_new and self._broker.id in told.isr

    def _become(
        self,
        topic: Topic,
        config: LogConfig,
        told: LeaderAndIsrPartitionState,
        *,
        again: bool = False,
    ) -> Code:
        partition = topic.place(told.partition_index)
        state = _state_of(told)
        try:
            self._check(partition, state)
            self._notice_isr(partition, state)
            self._prove(topic, partition, told)
            if partition.log_directory is None:
                find_log(
                    self._broker,
                    topic,
                    config,
                    partition,
                    is_new=told.is_new,
                    complete=self._is_new(told) or told.leader == self._broker.id,
                )
            if state.age != (partition.leader_epoch, partition.partition_epoch):
                self._take_role(topic, partition, state)
        except KafkaError as error:
            self._broker.log.warning(
                "role not taken", partition=partition.name, code=error.code.name, why=error.detail
            )
            return error.code
        except OSError as error:
            if not again and error.errno in OUT_OF_RESOURCES:
                self._give_back(error)
                return self._become(topic, config, told, again=True)
            return self._disk_failed(partition, error)
        return Code.NONE

    def _give_back(self, error: OSError) -> None:
        """The controller would take a refused role for a lost replica: make one more attempt."""
        for log_directory in self._broker.logs.online():
            log_directory.out_of_resources(error)

    def _check(self, partition: Partition, state: PartitionState) -> None:
        if partition.role is Role.OFFLINE:
            partition.told(state)
            raise storage_error(partition.name, partition.failure)
        if self._broker.id not in state.replicas:
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"{partition.name} has no replica here: {list(state.replicas)}",
            )
        if partition.log_directory is not None and state.age < (
            partition.leader_epoch,
            partition.partition_epoch,
        ):
            raise Fenced(
                Code.STALE_CONTROLLER_EPOCH,
                f"{partition.name} is in leader epoch {partition.leader_epoch}, partition epoch"
                f" {partition.partition_epoch}; {state.age} came",
            )

    def _prove(self, topic: Topic, partition: Partition, told: LeaderAndIsrPartitionState) -> None:
        """Refuse to lead what others would be cut to, without all that was committed."""
        broker = self._broker
        if told.leader != broker.id or partition.leading is not None:
            return
        report = describe(broker, partition.name, topic.id)
        chosen = told.leader_recovery_state or self._is_new(told)  # though others may have more
        if chosen or report.copy is not ReplicaCompleteness.LOST:
            self._complete(partition.name)  # nobody has more: so the controller decided
            return
        raise Failed(
            Code.KAFKA_STORAGE_ERROR,
            f"broker {broker.id} does not lead {partition.name}: it {report.reason}",
        )

    def _notice_isr(self, partition: Partition, state: PartitionState) -> None:
        """A replica that was out of the in-sync set and is in it has caught up."""
        name, logs = partition.name, self._broker.logs
        if logs.incomplete(name) is None:
            self._seen_out.pop(name, None)
        elif self._broker.id not in state.isr:
            self._seen_out[name] = None
        elif name in self._seen_out:
            self._complete(name)

    def _complete(self, name: TopicPartition) -> None:
        """It has all that was committed."""
        logs = self._broker.logs
        self._seen_out.pop(name, None)
        if logs.incomplete(name) is None:
            return
        logs.complete(name)
        if not self._unmarking:
            self._unmarking = True
            self.fetchers.spawn(self._unmark())

    async def _unmark(self) -> None:
        """On disk soon: a crash would make complete replicas seem incomplete."""
        await asyncio.sleep(0)  # many have caught up at once
        self._unmarking = False
        for log_directory in self._broker.logs.online():
            await log_directory.checkpoint()

    def _disk_failed(self, partition: Partition, error: OSError) -> Code:
        self._broker.log.error(
            "role not taken", partition=partition.name, code="KAFKA_STORAGE_ERROR", why=str(error)
        )
        return Code.KAFKA_STORAGE_ERROR

    def _take_role(self, topic: Topic, partition: Partition, state: PartitionState) -> None:
        broker = self._broker
        key = (topic.id, partition.name.partition)
        led = partition.leading
        if state.leader == broker.id:
            if led is not None and led.machine.state.leader_epoch == state.leader_epoch:
                led.update(state)
                return
            self.fetchers.leave(key)
            partition.lead(state, LeaderReplica(partition, BrokerId(broker.id), state, self))
            self._say(
                "leading",
                partition=partition.name,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                end=partition.log.end_offset,
                high_watermark=partition.log.high_watermark,
            )
            for told in self._watchers.get(partition.name.topic, ()):
                told(partition)
            return
        following = partition.following
        if following is not None and following.leader_epoch == state.leader_epoch:
            following.update(state)
            partition.restate(state)
            self.fetchers.touch(key)
            return
        following = Follower(state) if state.leader >= 0 else None
        partition.follow(state, following)
        if following is None:
            self.fetchers.leave(key)
        else:
            self.fetchers.follow(topic.id, partition, following)
        self._say(
            "following",
            partition=partition.name,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            end=partition.log.end_offset,
            high_watermark=partition.log.high_watermark,
        )

    def _say(self, event: str, **values: object) -> None:
        """A line each for a few; thousands would hide everything else."""
        self._said[event] = self._said.get(event, 0) + 1
        say = self._broker.log.info if self._said[event] <= SAID_MAX else self._broker.log.debug
        say(event, **values)

    def _sum_up(self) -> None:
        if any(count > SAID_MAX for count in self._said.values()):
            self._broker.log.info("roles taken", **self._said)
        self._said.clear()

    # Logs of nobody

    def told(self, topic: Topic, partition: Partition, state: PartitionState) -> None:
        """What all brokers are told of a partition.

        A replica that was moved away has no role from then on: the controller that moved it may
        have gone before it could say StopReplica, and no other knows of the replica.
        """
        if not partition.is_open:
            return
        if self._broker.id in state.replicas:
            if state.age >= (partition.leader_epoch, partition.partition_epoch):
                self._notice_isr(partition, state)
            return
        if state.age <= (partition.leader_epoch, partition.partition_epoch):
            return
        self.fetchers.leave((topic.id, partition.name.partition))
        partition.follow(state, None)
        self._look_for_strays()

    def _look_for_strays(self) -> None:
        """Everything that is here has been named; what is to be deleted goes first."""
        if self._strays is not None:
            self._strays.cancel()
        self._strays = self._broker.loop.call_later(
            STRAYS_S, lambda: self.fetchers.spawn(self._set_strays_aside())
        )

    async def _set_strays_aside(self) -> None:
        async with self._one_at_a_time:
            await set_strays_aside(self._broker)

    # Disks

    def disk_failed(self, names: list[TopicPartition]) -> None:
        """The controller lets others lead what was there."""
        self.fetchers.sweep()
        if names and self._timer is not None:
            self.fetchers.spawn(failed_disks.tell(self._broker, self._cluster, names))

    # StopReplica

    async def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop, and delete the logs where it says so."""
        async with self._one_at_a_time:
            self._admit(request)
            errors = []
            doomed: list[TopicPartition] = []
            for topic in request.topic_states:
                for state in topic.partition_states:
                    name = TopicPartition(topic.topic_name, state.partition_index)
                    code = self._stop(name, state)
                    if code is Code.NONE and state.delete_partition:
                        doomed.append(name)
                    errors.append(
                        StopReplicaPartitionError(
                            topic_name=name.topic, partition_index=name.partition, error_code=code
                        )
                    )
            if doomed:
                await self._broker.logs.delete_all(doomed)
        return StopReplicaResponse(error_code=0, partition_errors=errors)

    def _stop(self, name: TopicPartition, state: StopReplicaPartitionState) -> Code:
        topic = self._broker.topics.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            return Code.NONE  # of a topic that is gone: there may be a log of it
        partition = topic.partitions[name.partition]
        if partition.role is Role.OFFLINE:
            return Code.KAFKA_STORAGE_ERROR
        if partition.log_directory is None:
            return Code.NONE
        epoch = state.leader_epoch
        if epoch not in (NO_EPOCH, EPOCH_OF_DELETION) and epoch < partition.leader_epoch:
            return Code.FENCED_LEADER_EPOCH
        self.fetchers.leave((topic.id, name.partition))
        if state.delete_partition:
            partition.give_up_log()
        else:
            partition.stop()
        self._broker.log.info("replica stopped", partition=name, deleted=state.delete_partition)
        return Code.NONE


def _state_of(told: LeaderAndIsrPartitionState) -> PartitionState:
    return PartitionState(
        leader=BrokerId(told.leader),
        leader_epoch=told.leader_epoch,
        isr=tuple(map(BrokerId, told.isr)),
        partition_epoch=told.partition_epoch,
        replicas=tuple(map(BrokerId, told.replicas)),
        adding=tuple(map(BrokerId, told.adding_replicas)),
        removing=tuple(map(BrokerId, told.removing_replicas)),
    )
