"""Administration of brokers, replicas, log directories and leaders.

Always: errors raise, and name the partition or broker they are about.
Not here: topics (admin.py), options (configs.py), groups (groups/), rules and quotas
(security.py).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check, error_of
from barnabas.client.groups.offered import offers
from barnabas.client.metadata_snapshot import BrokerMetadata
from barnabas.client.net import BrokerConnection
from barnabas.config.kinds import Address
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages import (
    alter_partition_reassignments,
    describe_broker,
    describe_cluster,
    describe_log_dirs,
    elect_leaders,
    list_partition_reassignments,
)

_SOON_MS = 3_000


class ClusterInfo(NamedTuple):
    """The cluster, as one of its brokers sees it."""

    id: str
    controller_id: int
    brokers: list[BrokerMetadata]


class ReplicaOnDisk(NamedTuple):
    """A replica in a log directory. `is_future`: it is being moved there."""

    at: TopicPartition
    size: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory of a broker; sizes are -1 where the broker does not say."""

    broker: int
    path: str
    error: KafkaError | None
    total_size: int
    usable_size: int
    replicas: list[ReplicaOnDisk]


class Reassignment(NamedTuple):
    """A partition with a reassignment in progress."""

    at: TopicPartition
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class LogDirState(NamedTuple):
    """`state`: online, full or offline, and then the reason."""

    path: str
    state: str
    reason: str


class WaitingLog(NamedTuple):
    """Its oldest segments are past their retention, and not in the table of a lake yet."""

    partition: TopicPartition
    waiting_bytes: int
    log_bytes: int
    limit_bytes: int


class Throttling(NamedTuple):
    """Clients that share a quota and were over it in the last minute; `source` has the limit."""

    entity: str
    quota: str
    limit: float
    source: str
    times: int
    wait_ms: int


class BrokerDetails(NamedTuple):
    """What a Barnabas broker reports about itself; `epoch` is -1 for a lone broker."""

    id: int
    epoch: int
    process_id: int
    machine: str
    version: str
    controller_id: int
    controller_epoch: int
    loop_delay_ms_p99: int = -1  # of the last minute; -1, here and below: not reported
    open_files: int = -1
    open_files_max: int = -1
    log_lines_dropped: int = -1
    log_dirs: tuple[LogDirState, ...] = ()
    offline: Mapping[TopicPartition, str] = MappingProxyType({})
    """The controller's reason why a partition has no leader, and the remedy."""
    throttled: tuple[Throttling, ...] = ()
    waiting: tuple[WaitingLog, ...] = ()


class ClusterAdmin:
    """Brokers, log directories, leaders, replicas."""

    _cluster: ClusterClient

    async def cluster(self) -> ClusterInfo:
        """The brokers of the cluster, and its controller."""
        request = describe_cluster.DescribeClusterRequest(
            include_cluster_authorized_operations=False
        )

        async def attempt() -> ClusterInfo:
            connection = await self._cluster.anyone()
            response = await connection.call(
                request,
                describe_cluster.DescribeClusterResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            check(response.error_code, response.error_message, about="cluster")
            return ClusterInfo(
                response.cluster_id,
                response.controller_id,
                [
                    BrokerMetadata(broker.broker_id, Address(broker.host, broker.port), broker.rack)
                    for broker in sorted(response.brokers, key=lambda b: b.broker_id)
                ],
            )

        return await self._cluster.retrying(attempt)

    async def describe_brokers(self) -> dict[int, BrokerDetails]:
        """Details by broker, of the Barnabas brokers that answer in time, if this client may see
        them."""
        found: dict[int, BrokerDetails] = {}
        for broker in sorted((await self._cluster.retrying(self._cluster.refresh)).brokers):
            try:
                answer = await self._describe_broker(
                    await self._cluster.broker(broker), -1, 0, _SOON_MS
                )
            except Retriable:
                continue
            except KafkaError as error:
                if error.code is not Code.CLUSTER_AUTHORIZATION_FAILED:
                    raise
                continue
            if answer is not None:
                found[broker] = BrokerDetails(
                    answer.broker_id,
                    answer.broker_epoch,
                    answer.process_id,
                    answer.machine,
                    answer.version,
                    answer.controller_id,
                    answer.controller_epoch,
                    answer.loop_delay_ms_p99,
                    answer.open_files,
                    answer.open_files_max,
                    answer.log_lines_dropped,
                    tuple(LogDirState(d.path, d.state, d.reason) for d in answer.log_dirs),
                    {TopicPartition(e.topic, e.partition): e.reason for e in answer.offline},
                    tuple(
                        Throttling(e.entity, e.quota, e.limit, e.source, e.times, e.wait_ms)
                        for e in answer.throttled
                    ),
                    tuple(
                        WaitingLog(
                            TopicPartition(e.topic, e.partition),
                            e.waiting_bytes,
                            e.log_bytes,
                            e.limit_bytes,
                        )
                        for e in answer.waiting
                    ),
                )
        return found

    async def events(
        self, *, after: int = -1, count: int = 1000
    ) -> list[describe_broker.ControllerEvent] | None:
        """The history of the active controller, with causes: the last events after a number.

        None if the controller is not Barnabas.
        """

        async def attempt() -> list[describe_broker.ControllerEvent] | None:
            controller = await self._cluster.controller()
            answer = await self._describe_broker(controller, after, count, self._cluster.timeout_ms)
            if answer is None:
                return None
            if not answer.is_controller:
                raise Retriable(
                    Code.NOT_CONTROLLER, f"broker {answer.broker_id} is no longer the controller"
                )
            return list(answer.events)

        return await self._cluster.retrying(attempt)

    async def _describe_broker(
        self, connection: BrokerConnection, after: int, count: int, timeout_ms: int
    ) -> describe_broker.DescribeBrokerResponse | None:
        request = describe_broker.DescribeBrokerRequest(after=after, events_max=count)
        if not offers(connection, request.api_key):
            return None
        answer = await connection.call(
            request, describe_broker.DescribeBrokerResponse, timeout_ms=timeout_ms
        )
        check(answer.error_code, about="details of a broker")
        return answer

    async def log_dirs(self, brokers: Iterable[int] | None = None) -> list[LogDir]:
        """The log directories of these brokers, or of all brokers."""
        wanted = None if brokers is None else list(brokers)

        async def attempt() -> list[LogDir]:
            found: list[LogDir] = []
            for broker in sorted(
                (await self._cluster.view()).brokers if wanted is None else wanted
            ):
                connection = await self._cluster.broker(broker)
                response = await connection.call(
                    describe_log_dirs.DescribeLogDirsRequest(topics=None),
                    describe_log_dirs.DescribeLogDirsResponse,
                    timeout_ms=self._cluster.timeout_ms,
                )
                check(response.error_code, about=f"log directories of broker {broker}")
                found += [_log_dir(broker, result) for result in response.results]
            return found

        return await self._cluster.retrying(attempt)

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect the preferred leaders; with `unclean`, any replica if no in-sync replica is alive.

        Without partitions: of all partitions. A partition that needs no election is left out.
        """
        request = elect_leaders.ElectLeadersRequest(
            election_type=1 if unclean else 0,
            topic_partitions=None
            if partitions is None
            else [
                elect_leaders.TopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in _numbers_by_topic(partitions).items()
            ],
            timeout_ms=self._cluster.timeout_ms,
        )

        async def attempt() -> dict[TopicPartition, KafkaError | None]:
            controller = await self._cluster.controller()
            response = await controller.call(
                request, elect_leaders.ElectLeadersResponse, timeout_ms=self._cluster.timeout_ms
            )
            check(response.error_code, about="election")
            found: dict[TopicPartition, KafkaError | None] = {}
            for topic in response.replica_election_results:
                for result in topic.partition_result:
                    at = TopicPartition(topic.topic, result.partition_id)
                    if result.error_code == Code.ELECTION_NOT_NEEDED:
                        continue
                    found[at] = (
                        error_of(result.error_code, result.error_message, about=str(at))
                        if result.error_code
                        else None
                    )
            return found

        return await self._cluster.retrying(attempt)

    async def reassign(self, replicas: Mapping[TopicPartition, list[int] | None]) -> None:
        """Start to reassign partitions to these brokers; the first is the preferred leader.

        None cancels a reassignment in progress.
        """
        topics: dict[str, list[alter_partition_reassignments.ReassignablePartition]] = {}
        for at, brokers in replicas.items():
            wanted = alter_partition_reassignments.ReassignablePartition(
                partition_index=at.partition, replicas=brokers
            )
            topics.setdefault(at.topic, []).append(wanted)
        request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            timeout_ms=self._cluster.timeout_ms,
            topics=[
                alter_partition_reassignments.ReassignableTopic(name=name, partitions=wanted)
                for name, wanted in topics.items()
            ],
        )

        async def attempt() -> None:
            controller = await self._cluster.controller()
            response = await controller.call(
                request,
                alter_partition_reassignments.AlterPartitionReassignmentsResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            check(response.error_code, response.error_message, about="reassignment")
            for topic in response.responses:
                for result in topic.partitions:
                    at = TopicPartition(topic.name, result.partition_index)
                    check(result.error_code, result.error_message, about=str(at))

        await self._cluster.retrying(attempt)

    async def reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> list[Reassignment]:
        """The reassignments in progress, of these partitions or of all."""
        request = list_partition_reassignments.ListPartitionReassignmentsRequest(
            timeout_ms=self._cluster.timeout_ms,
            topics=None
            if partitions is None
            else [
                list_partition_reassignments.ListPartitionReassignmentsTopics(
                    name=topic, partition_indexes=numbers
                )
                for topic, numbers in _numbers_by_topic(partitions).items()
            ],
        )

        async def attempt() -> list[Reassignment]:
            controller = await self._cluster.controller()
            response = await controller.call(
                request,
                list_partition_reassignments.ListPartitionReassignmentsResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            check(response.error_code, response.error_message, about="reassignments")
            return [
                Reassignment(
                    TopicPartition(topic.name, moving.partition_index),
                    moving.replicas,
                    moving.adding_replicas,
                    moving.removing_replicas,
                )
                for topic in response.topics
                for moving in topic.partitions
            ]

        return await self._cluster.retrying(attempt)


def _log_dir(broker: int, result: describe_log_dirs.DescribeLogDirsResult) -> LogDir:
    about = f"log directory {result.log_dir} of broker {broker}"
    return LogDir(
        broker,
        result.log_dir,
        error_of(result.error_code, about=about) if result.error_code else None,
        result.total_bytes,
        result.usable_bytes,
        [
            ReplicaOnDisk(
                TopicPartition(topic.name, replica.partition_index),
                replica.partition_size,
                replica.offset_lag,
                replica.is_future_key,
            )
            for topic in result.topics
            for replica in topic.partitions
        ],
    )


def _numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found
