"""Administration of groups: list, describe, offsets, history; set and delete offsets, delete
groups.

Flows over `Net`, mixed into Admin. Works with any Kafka broker; only Barnabas brokers have a
history.
Always: requests about a group go to its coordinator; errors raise and name the group.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.errors import check, check_partition, error_of
from barnabas.client.groups.answers import (
    Description,
    classic_member,
    committed,
    new_member,
    one_batch,
    time_of,
)
from barnabas.client.groups.offered import offers
from barnabas.client.groups.report import CLASSIC, CONSUMER, GroupListing
from barnabas.client.groups.requests import offset_commit_request, offset_delete_request
from barnabas.client.groups.share_calls import (
    SHARE_GROUP_DESCRIBE,
    SHARE_GROUP_OFFSETS,
    alter_share_offsets,
    delete_share_offsets,
    describe_share_groups,
    is_share_group,
    share_offsets,
)
from barnabas.client.groups.streams_calls import (
    STREAMS_GROUP_DESCRIBE,
    describe_streams_groups,
)
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    fetch,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from barnabas.wire.messages.describe_group_history import (
    DescribeGroupHistoryRequest,
    DescribeGroupHistoryResponse,
    GroupHistory,
)

if TYPE_CHECKING:
    from barnabas.client.cluster import ClusterClient
    from barnabas.client.net import BrokerConnection

NAMES_UNTIL = 9  # of OffsetCommit and OffsetFetch: later versions use topic ids only
SEVERAL_SINCE = 8  # of OffsetFetch
FETCH_NAMES_UNTIL = 12
HISTORIES_AT_ONCE = 20
CONSUMER_GROUP_DESCRIBE = 69
_BUSY = (Code.UNKNOWN_MEMBER_ID, Code.NON_EMPTY_GROUP, Code.ILLEGAL_GENERATION)


def no_group(group: str) -> InvalidRequest:
    return InvalidRequest(Code.GROUP_ID_NOT_FOUND, f"there is no group {group!r}")


class GroupCalls:
    """Mixed into Admin."""

    _cluster: "ClusterClient"

    async def groups(self) -> list[GroupListing]:
        """All groups, by name."""

        async def attempt() -> list[GroupListing]:
            found: list[GroupListing] = []
            for broker in (await self._cluster.view()).brokers:
                connection = await self._cluster.broker(broker)
                response = await connection.call(
                    list_groups.ListGroupsRequest(),
                    list_groups.ListGroupsResponse,
                    timeout_ms=self._cluster.timeout_ms,
                )
                check(response.error_code, about=f"groups of broker {broker}")
                found += [
                    GroupListing(
                        each.group_id,
                        each.protocol_type,
                        each.group_state,
                        each.group_type.lower(),
                        broker,
                    )
                    for each in response.groups
                ]
            return sorted(found)

        return await self._cluster.retrying(attempt)

    async def describe_group(self, group: str) -> Description:
        """State and members of a group; GROUP_ID_NOT_FOUND if there is none."""
        found = (await self.describe_groups([group])).get(group)
        if found is None:
            raise no_group(group)
        return found

    async def describe_groups(
        self, groups: Iterable[str], *, coordinators: Mapping[str, int] | None = None
    ) -> dict[str, Description]:
        """Describes the groups that exist. `coordinators`: those that are known already."""
        wanted, hints = list(groups), dict(coordinators or {})

        async def attempt() -> dict[str, Description]:
            found: dict[str, Description] = {}
            for connection, ids in await self._by_coordinator(wanted, hints):
                found |= await self._describe_new(connection, ids)
                older = [id_ for id_ in ids if id_ not in found]
                if older and offers(connection, SHARE_GROUP_DESCRIBE):
                    found |= await describe_share_groups(
                        connection, older, self._cluster.timeout_ms
                    )
                    older = [id_ for id_ in older if id_ not in found]
                if older and offers(connection, STREAMS_GROUP_DESCRIBE):
                    found |= await describe_streams_groups(
                        connection, older, self._cluster.timeout_ms
                    )
                    older = [id_ for id_ in older if id_ not in found]
                if older:
                    found |= await self._describe_classic(connection, older)
            return found

        return await self._cluster.retrying(attempt)

    async def group_offsets(self, group: str) -> dict[TopicPartition, Committed]:
        """All committed offsets of the group; empty for a group that does not exist."""
        return (await self.groups_offsets([group]))[group]

    async def groups_offsets(
        self, groups: Iterable[str], *, coordinators: Mapping[str, int] | None = None
    ) -> dict[str, dict[TopicPartition, Committed]]:
        wanted, hints = list(groups), dict(coordinators or {})

        async def attempt() -> dict[str, dict[TopicPartition, Committed]]:
            found: dict[str, dict[TopicPartition, Committed]] = {id_: {} for id_ in wanted}
            for connection, ids in await self._by_coordinator(wanted, hints):
                found |= await self._offsets(connection, ids)
            return found

        return await self._cluster.retrying(attempt)

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> None:
        """Set the offsets of a group without members: all, or an error that names the first
        failure.
        """
        request = offset_commit_request(group, offsets)

        async def attempt() -> None:
            connection = await self._cluster.coordinator(group)
            timeout_ms = self._cluster.timeout_ms
            if await is_share_group(connection, group, timeout_ms):
                return await alter_share_offsets(connection, group, offsets, timeout_ms)
            response = await connection.call(
                request,
                offset_commit.OffsetCommitResponse,
                timeout_ms=self._cluster.timeout_ms,
                version_max=NAMES_UNTIL,
            )
            for topic in response.topics:
                for each in topic.partitions:
                    at = TopicPartition(topic.name, each.partition_index)
                    _check_move(each.error_code, group, f"group {group!r}, {at}")

        await self._cluster.retrying(attempt)

    async def delete_group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete the committed offsets of these partitions."""
        asked = list(partitions)
        request = offset_delete_request(group, asked)

        async def attempt() -> None:
            connection = await self._cluster.coordinator(group)
            timeout_ms = self._cluster.timeout_ms
            if await is_share_group(connection, group, timeout_ms):
                return await delete_share_offsets(connection, group, asked, timeout_ms)
            response = await connection.call(
                request,
                offset_delete.OffsetDeleteResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            _check_move(response.error_code, group, f"group {group!r}")
            for topic in response.topics:
                for each in topic.partitions:
                    at = TopicPartition(topic.name, each.partition_index)
                    _check_move(each.error_code, group, f"group {group!r}, {at}")

        await self._cluster.retrying(attempt)

    async def delete_group(self, group: str) -> None:
        """Delete a group without members, and all its offsets."""

        async def attempt() -> None:
            connection = await self._cluster.coordinator(group)
            response = await connection.call(
                delete_groups.DeleteGroupsRequest(groups_names=[group]),
                delete_groups.DeleteGroupsResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            for result in response.results:
                if result.error_code == Code.GROUP_ID_NOT_FOUND:
                    raise no_group(group)
                _check_move(result.error_code, group, f"group {group!r}")

        await self._cluster.retrying(attempt)

    async def group_histories(self, groups: Iterable[str]) -> dict[str, GroupHistory]:
        """The history of each group that has one; none if the broker is not Barnabas."""
        wanted = list(groups)

        async def attempt() -> dict[str, GroupHistory]:
            found: dict[str, GroupHistory] = {}
            for connection, ids in await self._by_coordinator(wanted):
                if not offers(connection, DescribeGroupHistoryRequest.api_key):
                    continue
                for first in range(0, len(ids), HISTORIES_AT_ONCE):
                    response = await connection.call(
                        DescribeGroupHistoryRequest(
                            group_ids=ids[first : first + HISTORIES_AT_ONCE]
                        ),
                        DescribeGroupHistoryResponse,
                        timeout_ms=self._cluster.timeout_ms,
                    )
                    for history in response.groups:
                        if history.error_code != Code.GROUP_ID_NOT_FOUND:
                            check(history.error_code, history.error_message, about=history.group_id)
                            found[history.group_id] = history
            return found

        return await self._cluster.retrying(attempt)

    async def times_at(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The approximate times of the records at these offsets, where there are any.

        One fetch each."""

        async def attempt() -> dict[TopicPartition, int]:
            found: dict[TopicPartition, int] = {}
            for broker, partitions in (await self._cluster.by_leader(offsets)).items():
                connection = await self._cluster.broker(broker)
                sent = [
                    connection.send(
                        one_batch(at, offsets[at]),
                        fetch.FetchResponse,
                        timeout_ms=self._cluster.timeout_ms,
                        version_max=FETCH_NAMES_UNTIL,
                    )
                    for at in partitions
                ]
                for at, waiting in zip(partitions, sent, strict=True):
                    time_ms = time_of(await waiting, offsets[at])
                    if time_ms is not None:
                        found[at] = time_ms
            return found

        return await self._cluster.retrying(attempt)

    # Inside

    async def _by_coordinator(
        self, groups: list[str], hints: dict[str, int] | None = None
    ) -> list[tuple["BrokerConnection", list[str]]]:
        """`hints` are used once: a retry looks the coordinator up again."""
        known = dict(hints or {})
        if hints:
            hints.clear()
        by_broker: dict[int, list[str]] = {}
        for group in groups:
            if not group:
                raise InvalidRequest(Code.INVALID_GROUP_ID, "a group needs a name")
            broker = known.get(group)
            if broker is None:
                broker = await self._cluster.coordinator_id(group)
            by_broker.setdefault(broker, []).append(group)
        return [(await self._cluster.broker(broker), ids) for broker, ids in by_broker.items()]

    async def _describe_new(
        self, connection: "BrokerConnection", groups: list[str]
    ) -> dict[str, Description]:
        if not offers(connection, CONSUMER_GROUP_DESCRIBE):
            return {}
        response = await connection.call(
            consumer_group_describe.ConsumerGroupDescribeRequest(
                group_ids=groups, include_authorized_operations=False
            ),
            consumer_group_describe.ConsumerGroupDescribeResponse,
            timeout_ms=self._cluster.timeout_ms,
        )
        found = {}
        for each in response.groups:
            # This API does not find classic groups, or reports the wrong group type.
            if each.error_code in (Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION):
                continue
            check(each.error_code, each.error_message, about=f"group {each.group_id!r}")
            found[each.group_id] = Description(
                each.group_id,
                each.group_state,
                CONSUMER,
                CONSUMER,
                each.assignor_name,
                each.group_epoch,
                tuple(new_member(member) for member in each.members),
            )
        return found

    async def _describe_classic(
        self, connection: "BrokerConnection", groups: list[str]
    ) -> dict[str, Description]:
        response = await connection.call(
            describe_groups.DescribeGroupsRequest(groups=groups),
            describe_groups.DescribeGroupsResponse,
            timeout_ms=self._cluster.timeout_ms,
        )
        found = {}
        for each in response.groups:
            if each.error_code == Code.GROUP_ID_NOT_FOUND or each.group_state == "Dead":
                continue
            check(each.error_code, each.error_message, about=f"group {each.group_id!r}")
            found[each.group_id] = Description(
                each.group_id,
                each.group_state,
                CLASSIC,
                each.protocol_type,
                each.protocol_data,
                None,
                tuple(
                    classic_member(member, each.protocol_type in (CONSUMER, ""))
                    for member in each.members
                ),
            )
        return found

    async def _offsets(
        self, connection: "BrokerConnection", groups: list[str]
    ) -> dict[str, dict[TopicPartition, Committed]]:
        if connection.version_of(offset_fetch.OffsetFetchRequest.api_key) < SEVERAL_SINCE:
            return {group: await self._offsets_of_one(connection, group) for group in groups}
        response = await connection.call(
            offset_fetch.OffsetFetchRequest(
                groups=[
                    offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=None)
                    for group in groups
                ]
            ),
            offset_fetch.OffsetFetchResponse,
            timeout_ms=self._cluster.timeout_ms,
            version_max=NAMES_UNTIL,
        )
        found: dict[str, dict[TopicPartition, Committed]] = {}
        for each in response.groups:
            check(each.error_code, about=f"group {each.group_id!r}")
            found[each.group_id] = committed(each.topics, each.group_id)
        shares = [group for group, offsets in found.items() if not offsets]
        if shares and offers(connection, SHARE_GROUP_OFFSETS):
            found |= await share_offsets(connection, shares, self._cluster.timeout_ms)
        return found

    async def _offsets_of_one(
        self, connection: "BrokerConnection", group: str
    ) -> dict[TopicPartition, Committed]:
        response = await connection.call(
            offset_fetch.OffsetFetchRequest(group_id=group, topics=None),
            offset_fetch.OffsetFetchResponse,
            timeout_ms=self._cluster.timeout_ms,
            version_max=SEVERAL_SINCE - 1,
        )
        check(response.error_code, about=f"group {group!r}")
        return committed(response.topics, group)


def _check_move(number: int, group: str, about: str) -> None:
    if number in _BUSY:
        raise InvalidRequest(
            Code.NON_EMPTY_GROUP, f"group {group!r} has members: stop them first, then try again"
        )
    if number == Code.GROUP_SUBSCRIBED_TO_TOPIC:
        raise error_of(number, "its members subscribe to it: stop them first", about=about)
    check_partition(number, about=about)
