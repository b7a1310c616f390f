"""The replicas on this broker, in the roles that the controller assigns: LeaderAndIsr, StopReplica.

In: LeaderAndIsr and StopReplica. Out: partitions that lead or follow, and a result for each.
Always: one request at a time, in order of arrival; an older state never replaces a newer one.
Not here: the decisions of a leader and a follower (replication/), their logs (logs.py),
fetching (fetchers.py), which replicas are incomplete (incomplete.py), the metadata that clients
get of other partitions (UpdateMetadata).

For other modules:
- `broker.replicas` exists in a cluster; it is None on a lone broker.
- `Topic.partitions[i]` exists for every partition of the cluster. A partition without a replica
  here is created by `absent_partition(name)`; `Partition.update_metadata(state)` sets its leader
  and never overrides LeaderAndIsr for a replica on this broker.
- `watch(topic, led)` calls back when this broker starts to lead partitions of a topic;
  `Partition.on_leadership_lost` when it stops leading.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.catalog_interface import log_config
from barnabas.broker.partition import Partition
from barnabas.broker.replicas import failure_reports
from barnabas.broker.replicas.fetchers import Fetchers
from barnabas.broker.replicas.follower_sessions import ReplicaSessions
from barnabas.broker.replicas.incomplete import IncompleteReplicas
from barnabas.broker.replicas.isr_proposals import Proposals
from barnabas.broker.replicas.leading import LeaderReplica
from barnabas.broker.replicas.limited_log import LimitedLog
from barnabas.broker.replicas.logs import StrayLogs, find_log
from barnabas.broker.replicas.replica_cluster import ReplicaCluster
from barnabas.broker.replicas.throttles import Throttles
from barnabas.broker.role import Role
from barnabas.broker.storage.log_directory import storage_error
from barnabas.broker.topic import Topic
from barnabas.log.config import LogConfig
from barnabas.model.errors import Code, Fenced, InvalidRequest, KafkaError
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.model.system_errors import OUT_OF_RESOURCES
from barnabas.replication.follower import Follower
from barnabas.replication.leader import IsrProposal
from barnabas.replication.state import PartitionState
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
CREATED_PER_SLICE = 50  # logs, before other work of the loop runs
PARTITIONS_PER_SLICE = 500  # partitions
ALL = 2  # the type of a LeaderAndIsr that lists all replicas of a broker
NO_EPOCH = -1
EPOCH_DELETED = -2


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
        self._needs_ticks: dict[LeaderReplica, None] = {}
        self._one_at_a_time = asyncio.Lock()
        self.strays = StrayLogs(broker, self._one_at_a_time, self.fetchers.spawn)
        self.incomplete = IncompleteReplicas(broker, self.fetchers.spawn)
        self._role_log = LimitedLog(broker.log)
        self._timer: asyncio.TimerHandle | None = broker.loop.call_later(self._tick_s(), self._tick)

    def watch(self, topic: str, led: Callable[[Partition], None]) -> None:
        """Call back for each partition of a topic that this broker starts to lead."""
        self._watchers.setdefault(topic, []).append(led)

    def rack_of(self, broker: int) -> str | None:
        return self._cluster.rack_of(broker)

    async def close(self) -> None:
        """Stop fetching; the logs are closed next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.strays.close()
        await self.fetchers.close()
        await self.proposals.close()
        self.sessions.close()

    # For partitions that are led here

    def now_ms(self) -> int:
        return self._broker.clock.monotonic_ms()

    @property
    def lag_ms_max(self) -> int:
        return self._broker.config.replica_lag_time_max_ms

    def is_registered(self, broker: BrokerId) -> bool:
        return broker in self._cluster.members

    def may_have_successors(self) -> bool:
        """Its session may have expired, also because the loop was hanging."""
        broker = self._broker
        hung = broker.heartbeat.idle_ms() >= broker.config.zookeeper_session_timeout_ms
        return hung or not self._cluster.is_connected()

    def propose(self, leading: LeaderReplica, proposal: IsrProposal) -> None:
        topic = self._broker.topics.get(leading.partition.name.topic)
        if topic is None:
            return
        send = partial(self.proposals.add, topic.id, leading, proposal)
        if len(proposal.isr) > 1:
            send()
        else:
            self.incomplete.when_written(leading.partition.name, send)

    def needs_ticks(self, leading: LeaderReplica) -> None:
        self._needs_ticks[leading] = None

    def _tick_s(self) -> float:
        return min(TICK_MS_MAX, max(10, self.lag_ms_max // 4)) / 1000

    def _tick(self) -> None:
        self._timer = self._broker.loop.call_later(self._tick_s(), self._tick)
        for leading in list(self._needs_ticks):
            if leading.partition.leading is not leading or not leading.tick():
                del self._needs_ticks[leading]
        self.fetchers.sweep()

    # LeaderAndIsr

    async def lead_and_follow(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Start to lead or to follow; logs that do not exist yet are created."""
        async with self._one_at_a_time:
            self._admit(request)
            await self._cluster.learn(
                (each.topic_name, each.topic_id) for each in request.topic_states
            )
            self._admit(request)  # other requests may have run
            results = []
            logs = self._broker.logs.logs
            created, done = len(logs), 0
            self.incomplete.mark_missing(request)
            for requested in request.topic_states:
                topic = self._cluster.topic(requested.topic_name, requested.topic_id)
                config = log_config(topic.config, self._broker)
                errors = []
                for state in requested.partition_states:
                    code = self._apply(topic, config, state)
                    errors.append(
                        LeaderAndIsrPartitionError(
                            partition_index=state.partition_index, error_code=code
                        )
                    )
                    done += 1
                    if len(logs) - created >= CREATED_PER_SLICE or done >= PARTITIONS_PER_SLICE:
                        await asyncio.sleep(0)
                        self._admit(request)
                        config = log_config(topic.config, self._broker)
                        created, done = len(logs), 0
                results.append(
                    LeaderAndIsrTopicError(topic_id=requested.topic_id, partition_errors=errors)
                )
            self._role_log.finish("roles taken")
            if request.type == ALL:
                self.strays.schedule()
        return LeaderAndIsrResponse(error_code=0, topics=results)

    def _admit(self, request: LeaderAndIsrRequest | StopReplicaRequest) -> None:
        self._cluster.admit(request.controller_id, request.controller_epoch, request.broker_epoch)

    def _apply(
        self,
        topic: Topic,
        config: LogConfig,
        requested: LeaderAndIsrPartitionState,
        *,
        again: bool = False,
    ) -> Code:
        partition = topic.ensure_partition(requested.partition_index)
        state = _state_of(requested)
        try:
            self._check(partition, state)
            self.incomplete.isr_changed(partition, state)
            self.incomplete.check_may_lead(topic, partition, requested)
            if partition.log_directory is None:
                find_log(
                    self._broker,
                    topic,
                    config,
                    partition,
                    is_new=requested.is_new,
                    complete=self.incomplete.is_new(requested)
                    or requested.leader == self._broker.id,
                )
            if state.epochs != (partition.leader_epoch, partition.partition_epoch):
                self._take_role(topic, partition, state)
            if partition.leading is not None or self.incomplete.is_new(requested):
                self.incomplete.confirm(partition.name)
        except KafkaError as error:
            self._broker.log.warning(
                "role refused", partition=partition.name, code=error.code.name, why=error.detail
            )
            return error.code
        except OSError as error:
            if not again and error.errno in OUT_OF_RESOURCES:
                self._free_resources(error)
                return self._apply(topic, config, requested, again=True)
            return self._disk_failed(partition, error)
        return Code.NONE

    def _free_resources(self, error: OSError) -> None:
        """The controller would treat a refused role as a lost replica: retry once."""
        for log_directory in self._broker.logs.online():
            log_directory.out_of_resources(error)

    def _check(self, partition: Partition, state: PartitionState) -> None:
        if partition.role is Role.OFFLINE:
            partition.update_metadata(state)
            raise storage_error(partition.name, partition.failure)
        if self._broker.id not in state.replicas:
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"{partition.name} has no replica here: {list(state.replicas)}",
            )
        if partition.log_directory is not None and state.epochs < (
            partition.leader_epoch,
            partition.partition_epoch,
        ):
            raise Fenced(
                Code.STALE_CONTROLLER_EPOCH,
                f"{partition.name} is in leader epoch {partition.leader_epoch}, partition epoch"
                f" {partition.partition_epoch}, newer than {state.epochs}",
            )

    def _disk_failed(self, partition: Partition, error: OSError) -> Code:
        self._broker.log.error(
            "role refused", partition=partition.name, code="KAFKA_STORAGE_ERROR", why=str(error)
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
            self._role_log.write(
                broker.log.info,
                "leading",
                partition=partition.name,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                end=partition.log.end_offset,
                high_watermark=partition.log.high_watermark,
            )
            for notify in self._watchers.get(partition.name.topic, ()):
                notify(partition)
            return
        following = partition.following
        if following is not None and following.leader_epoch == state.leader_epoch:
            following.update(state)
            partition.update_state(state)
            self.fetchers.send_position(key)
            return
        following = Follower(state) if state.leader >= 0 else None
        partition.follow(state, following)
        if following is None:
            self.fetchers.leave(key)
        else:
            self.fetchers.follow(topic.id, partition, following)
        self._role_log.write(
            broker.log.info,
            "following",
            partition=partition.name,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            end=partition.log.end_offset,
            high_watermark=partition.log.high_watermark,
        )

    # Logs without a replica

    def update_metadata(self, topic: Topic, partition: Partition, state: PartitionState) -> None:
        """UpdateMetadata for a partition.

        A replica that was moved away has no role from then on: the controller that moved it may
        have failed before it sent StopReplica, and no other controller knows of the replica.
        """
        if not partition.is_open:
            return
        if self._broker.id in state.replicas:
            if state.epochs >= (partition.leader_epoch, partition.partition_epoch):
                self.incomplete.isr_changed(partition, state)
            return
        if state.epochs <= (partition.leader_epoch, partition.partition_epoch):
            return
        self.fetchers.leave((topic.id, partition.name.partition))
        partition.follow(state, None)
        self.strays.schedule()

    # Disks

    def disk_failed(self, names: list[TopicPartition]) -> None:
        """The controller elects other leaders for these partitions."""
        self.fetchers.sweep()
        if names and self._timer is not None:
            self.fetchers.spawn(failure_reports.report(self._broker, self._cluster, names))

    # StopReplica

    async def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop replicas, and delete the logs if requested."""
        async with self._one_at_a_time:
            self._admit(request)
            errors = []
            to_delete: list[TopicPartition] = []
            for topic in request.topic_states:
                for state in topic.partition_states:
                    name = TopicPartition(topic.topic_name, state.partition_index)
                    code = self._stop(name, state)
                    if code is Code.NONE and state.delete_partition:
                        to_delete.append(name)
                        self.incomplete.forget(name)
                    errors.append(
                        StopReplicaPartitionError(
                            topic_name=name.topic, partition_index=name.partition, error_code=code
                        )
                    )
            if to_delete:
                try:
                    await self._broker.logs.delete_all(to_delete)
                except OSError as error:
                    self._not_deleted(to_delete, error)
        return StopReplicaResponse(error_code=0, partition_errors=errors)

    def _not_deleted(self, names: list[TopicPartition], error: OSError) -> None:
        """The topic is deleted all the same: a log that is left has no replica any more."""
        left = [name for name in names if name in self._broker.logs.logs]
        if left:  # else they are on a directory that is offline now
            self._broker.log.error(
                "logs not deleted",
                partitions=left,
                reason=str(error),
                remedy="free space on the disk; then the broker renames them to *-stray",
            )
            self.strays.schedule()

    def _stop(self, name: TopicPartition, state: StopReplicaPartitionState) -> Code:
        topic = self._broker.topics.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            return Code.NONE  # its topic is deleted: there may be a log of it
        partition = topic.partitions[name.partition]
        if partition.role is Role.OFFLINE:
            return Code.KAFKA_STORAGE_ERROR
        if partition.log_directory is None:
            return Code.NONE
        epoch = state.leader_epoch
        if epoch not in (NO_EPOCH, EPOCH_DELETED) and epoch < partition.leader_epoch:
            return Code.FENCED_LEADER_EPOCH
        self.fetchers.leave((topic.id, name.partition))
        if state.delete_partition:
            partition.drop_log()
        else:
            partition.stop()
        self._broker.log.info("replica stopped", partition=name, deleted=state.delete_partition)
        return Code.NONE


def _state_of(requested: LeaderAndIsrPartitionState) -> PartitionState:
    return PartitionState(
        leader=BrokerId(requested.leader),
        leader_epoch=requested.leader_epoch,
        isr=tuple(map(BrokerId, requested.isr)),
        partition_epoch=requested.partition_epoch,
        replicas=tuple(map(BrokerId, requested.replicas)),
        adding=tuple(map(BrokerId, requested.adding_replicas)),
        removing=tuple(map(BrokerId, requested.removing_replicas)),
    )
