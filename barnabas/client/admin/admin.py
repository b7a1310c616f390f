"""Administration of topics, partitions, records and offsets.

Written once over `Net`: `barnabas.Admin` awaits, `barnabas.sync.Admin` blocks.
Always: errors raise, and name the first topic that failed.
Not here: brokers (cluster.py), options (configs.py), rules and quotas
(security.py), users (users.py), transactions (transactions.py), groups (groups/).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

from barnabas.client.admin.clients import ClientsAdmin, GroupMember
from barnabas.client.admin.cluster import ClusterAdmin
from barnabas.client.admin.configs import OptionsAdmin
from barnabas.client.admin.security import SecurityAdmin
from barnabas.client.admin.transactions import TransactionsAdmin
from barnabas.client.admin.users import UsersAdmin
from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check, check_partition
from barnabas.client.groups.calls import GroupCalls
from barnabas.client.groups.offered import offers
from barnabas.client.groups.report import GroupReport
from barnabas.client.groups.reporting import GroupReports, GroupSummary
from barnabas.client.metadata_snapshot import MetadataSnapshot, TopicMetadata
from barnabas.client.transactions.report import TransactionsReport
from barnabas.client.transactions.reporting import TransactionReports
from barnabas.config.client import Settings, Value
from barnabas.model.errors import Retriable
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.wire.messages import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_logs,
    list_offsets,
)

EARLIEST = list_offsets.EARLIEST
LATEST = list_offsets.LATEST
BROKER_DEFAULT = -1
_SEEN_MS_MAX = 15_000


PartitionNumbers = Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]


class OffsetAt(NamedTuple):
    """An offset, and the timestamp of its record if the lookup was by time, else -1."""

    offset: int
    timestamp: int


class Admin(
    ClusterAdmin,
    ClientsAdmin,
    OptionsAdmin,
    SecurityAdmin,
    UsersAdmin,
    TransactionsAdmin,
    GroupCalls,
):
    """Administration of one cluster. `cluster`: an open cluster to use; it stays open."""

    def __init__(
        self,
        settings: Settings | None = None,
        /,
        *,
        cluster: ClusterClient | None = None,
        **options: Value,
    ) -> None:
        self._owns = cluster is None
        if cluster is None:
            # asyncio takes a while to import, and the blocking Admin already has a cluster.
            from barnabas.client.aio import open_cluster

            cluster = open_cluster(settings, options)
        self._cluster = cluster

    async def __aenter__(self) -> Self:
        self._cluster.net.check_owner()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._owns:
            # refuses a cluster that is open on another event loop
            self._cluster.net.may_send_at_close()
            self._cluster.close()

    async def group_report(self, group: str) -> GroupReport:
        """A report of a group; GROUP_ID_NOT_FOUND if there is none."""
        return await GroupReports(self, self._cluster).report(group)

    async def group_summaries(self) -> list[GroupSummary]:
        """Every group, by name, with its number of members and its lag."""
        return await GroupReports(self, self._cluster).summaries()

    async def group_members(self, *, groups_max: int = 1000) -> list[GroupMember]:
        """The members of groups that have members, and the topics that they own partitions of."""
        listed = [each for each in await self.groups() if each.group and each.state != "Empty"]
        asked = {each.group: each.coordinator for each in listed[:groups_max]}
        return [
            GroupMember(
                group,
                member.client,
                member.host,
                tuple(sorted({at.topic for at in member.owned} or member.topics)),
            )
            for group, described in (await self.describe_groups(asked, coordinators=asked)).items()
            for member in described.members
        ]

    async def transactions_report(self, topics: Iterable[str] | None = None) -> TransactionsReport:
        """Where readers of committed records wait, in these topics or in all, and for what."""
        return await TransactionReports(self, self._cluster).report(topics)

    async def topics(self) -> MetadataSnapshot:
        """All topics."""
        return await self._cluster.retrying(lambda: self._cluster.view_of(None))

    async def topic(self, name: str) -> TopicMetadata:
        """One topic."""
        view = await self._cluster.retrying(lambda: self._cluster.view_of([name]))
        return view.topic(name)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        request = create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replication_factor,
                    assignments=[],
                    configs=[
                        create_topics.CreatableTopicConfig(name=option, value=value)
                        for option, value in (configs or {}).items()
                    ],
                )
            ],
            timeout_ms=self._cluster.timeout_ms,
            validate_only=validate_only,
        )

        async def attempt() -> None:
            controller = await self._cluster.controller()
            response = await controller.call(
                request, create_topics.CreateTopicsResponse, timeout_ms=self._cluster.timeout_ms
            )
            for result in response.topics:
                check(result.error_code, result.error_message, about=f"topic {result.name!r}")

        await self._cluster.retrying(attempt)
        if not validate_only:
            await self._seen(name, lambda topic: topic is not None)

    async def delete_topic(self, name: str) -> None:
        request = delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name=name, topic_id=NO_TOPIC_ID)],
            topic_names=[name],
            timeout_ms=self._cluster.timeout_ms,
        )
        older = delete_topics.DeleteTopicsRequest(
            topic_names=[name], timeout_ms=self._cluster.timeout_ms
        )

        async def attempt() -> None:
            controller = await self._cluster.controller()
            by_state = controller.version_of(request.api_key) >= 6
            response = await controller.call(
                request if by_state else older,
                delete_topics.DeleteTopicsResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            for result in response.responses:
                check(result.error_code, result.error_message, about=f"topic {name!r}")

        await self._cluster.retrying(attempt)
        await self._seen(name, lambda topic: topic is None)

    async def create_partitions(self, name: str, count: int) -> None:
        """Increase the partitions of a topic to `count`."""
        request = create_partitions.CreatePartitionsRequest(
            topics=[
                create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)
            ],
            timeout_ms=self._cluster.timeout_ms,
            validate_only=False,
        )

        async def attempt() -> None:
            controller = await self._cluster.controller()
            response = await controller.call(
                request,
                create_partitions.CreatePartitionsResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            for result in response.results:
                check(result.error_code, result.error_message, about=f"topic {result.name!r}")

        await self._cluster.retrying(attempt)
        await self._seen(name, lambda topic: topic is not None and len(topic.partitions) >= count)

    async def _seen(self, name: str, as_wanted: Callable[[TopicMetadata | None], bool]) -> None:
        """Wait until the brokers know the controller's change, or until a timeout."""
        deadline = self._cluster.net.now_ms() + _SEEN_MS_MAX
        for wait_ms in self._cluster.waits_ms():
            try:
                view = await self._cluster.view_of([name])
            except Retriable:
                return
            found = view.topics.get(name)
            led = found is None or all(p.leader in view.brokers for p in found.partitions)
            if (as_wanted(found) and led) or self._cluster.net.now_ms() + wait_ms > deadline:
                return
            await self._cluster.net.sleep(wait_ms)

    async def delete_records(self, before: PartitionNumbers) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (-1: all records); returns the new first offset
        of each partition.
        """
        offsets = {TopicPartition(*at): offset for at, offset in before.items()}

        async def attempt() -> dict[TopicPartition, int]:
            starts: dict[TopicPartition, int] = {}
            for broker, partitions in (await self._cluster.by_leader(offsets)).items():
                request = delete_records.DeleteRecordsRequest(
                    topics=[
                        delete_records.DeleteRecordsTopic(
                            name=topic,
                            partitions=[
                                delete_records.DeleteRecordsPartition(
                                    partition_index=at.partition, offset=offsets[at]
                                )
                                for at in group
                            ],
                        )
                        for topic, group in _by_topic(partitions).items()
                    ],
                    timeout_ms=self._cluster.timeout_ms,
                )
                leader = await self._cluster.broker(broker)
                response = await leader.call(
                    request,
                    delete_records.DeleteRecordsResponse,
                    timeout_ms=self._cluster.timeout_ms,
                )
                for topic_result in response.topics:
                    for result in topic_result.partitions:
                        at = TopicPartition(topic_result.name, result.partition_index)
                        check_partition(result.error_code, about=f"{at}, offset {offsets.get(at)}")
                        starts[at] = result.low_watermark
            return starts

        return await self._cluster.retrying(attempt)

    async def describe_logs(
        self, topic: str, partitions: Iterable[int], *, segments_max: int = 0
    ) -> dict[int, describe_logs.DescribedLog]:
        """The logs of these partitions; none if the broker is not Barnabas.

        `segments_max`: also the newest segments, at most this many, and at most 1,000 per leader.
        """
        wanted = [TopicPartition(topic, number) for number in partitions]

        async def attempt() -> dict[int, describe_logs.DescribedLog]:
            found: dict[int, describe_logs.DescribedLog] = {}
            for broker, led in (await self._cluster.by_leader(wanted)).items():
                leader = await self._cluster.broker(broker)
                if not offers(leader, describe_logs.DescribeLogsRequest.api_key):
                    continue
                request = describe_logs.DescribeLogsRequest(
                    topic=topic,
                    partitions=[at.partition for at in led],
                    segments_max=segments_max,
                )
                response = await leader.call(
                    request, describe_logs.DescribeLogsResponse, timeout_ms=self._cluster.timeout_ms
                )
                for log in response.logs:
                    check(log.error_code, None, about=f"{topic}-{log.partition}")
                    found[log.partition] = log
            return found

        return await self._cluster.retrying(attempt)

    async def offsets(
        self, times: PartitionNumbers, *, committed_only: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        """The offset of EARLIEST, LATEST or the first record at or after a time in ms.

        Offset -1: there is no such record. `committed_only`: the end is the last stable offset.
        """
        wanted = {TopicPartition(*at): time for at, time in times.items()}

        async def attempt() -> dict[TopicPartition, OffsetAt]:
            found: dict[TopicPartition, OffsetAt] = {}
            for broker, partitions in (await self._cluster.by_leader(wanted)).items():
                request = list_offsets.ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=1 if committed_only else 0,
                    topics=[
                        list_offsets.ListOffsetsTopic(
                            name=topic,
                            partitions=[
                                list_offsets.ListOffsetsPartition(
                                    partition_index=at.partition, timestamp=wanted[at]
                                )
                                for at in group
                            ],
                        )
                        for topic, group in _by_topic(partitions).items()
                    ],
                    timeout_ms=self._cluster.timeout_ms,
                )
                leader = await self._cluster.broker(broker)
                response = await leader.call(
                    request, list_offsets.ListOffsetsResponse, timeout_ms=self._cluster.timeout_ms
                )
                for topic_result in response.topics:
                    for result in topic_result.partitions:
                        at = TopicPartition(topic_result.name, result.partition_index)
                        check_partition(result.error_code, about=str(at))
                        found[at] = OffsetAt(result.offset, result.timestamp)
            return found

        return await self._cluster.retrying(attempt)


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[TopicPartition]]:
    groups: dict[str, list[TopicPartition]] = {}
    for at in partitions:
        groups.setdefault(at.topic, []).append(at)
    return groups
