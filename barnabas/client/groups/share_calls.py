"""Requests about share groups: describe them, their start offsets, and change these.

Flows over `Net`, used by GroupCalls. Works with any Kafka broker that has share groups.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.errors import check, error_of
from barnabas.client.groups.answers import Description
from barnabas.client.groups.offered import offers
from barnabas.client.groups.report import SHARE, MemberReport
from barnabas.client.groups.requests import by_topic
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from barnabas.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from barnabas.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from barnabas.wire.messages.share_group_describe import (
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

if TYPE_CHECKING:
    from barnabas.client.net import BrokerConnection

SHARE_GROUP_DESCRIBE = ShareGroupDescribeRequest.api_key
SHARE_GROUP_OFFSETS = DescribeShareGroupOffsetsRequest.api_key


async def is_share_group(connection: "BrokerConnection", group: str, timeout_ms: int) -> bool:
    if not offers(connection, SHARE_GROUP_DESCRIBE):
        return False
    return bool(await describe_share_groups(connection, [group], timeout_ms))


async def describe_share_groups(
    connection: "BrokerConnection", groups: list[str], timeout_ms: int
) -> dict[str, Description]:
    """Those that are share groups."""
    response = await connection.call(
        ShareGroupDescribeRequest(group_ids=groups, include_authorized_operations=False),
        ShareGroupDescribeResponse,
        timeout_ms=timeout_ms,
    )
    found = {}
    for each in response.groups:
        if each.error_code in (Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION):
            continue
        check(each.error_code, each.error_message, about=f"group {each.group_id!r}")
        members = tuple(map(_member, each.members))
        found[each.group_id] = Description(
            each.group_id,
            each.group_state,
            SHARE,
            SHARE,
            each.assignor_name,
            each.group_epoch,
            members,
        )
    return found


def _member(member: Member) -> MemberReport:
    return MemberReport(
        member.member_id,
        member.client_id,
        member.client_host,
        None,
        tuple(member.subscribed_topic_names),
        tuple(
            TopicPartition(topic.topic_name, partition)
            for topic in member.assignment.topic_partitions
            for partition in topic.partitions
        ),
    )


async def share_offsets(
    connection: "BrokerConnection", groups: list[str], timeout_ms: int
) -> dict[str, dict[TopicPartition, Committed]]:
    """The start offsets, where the group has one, with the lag if the broker says it; none for
    groups of other types."""
    response = await connection.call(
        DescribeShareGroupOffsetsRequest(
            groups=[
                DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
                for group in groups
            ]
        ),
        DescribeShareGroupOffsetsResponse,
        timeout_ms=timeout_ms,
    )
    found: dict[str, dict[TopicPartition, Committed]] = {}
    for group in response.groups:
        if group.error_code in (Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION):
            continue
        check(group.error_code, group.error_message, about=f"group {group.group_id!r}")
        offsets = found[group.group_id] = {}
        for topic in group.topics:
            for each in topic.partitions:
                if not each.error_code and each.start_offset >= 0:
                    at = TopicPartition(topic.topic_name, each.partition_index)
                    offsets[at] = Committed(each.start_offset, lag=each.lag)
    return found


async def alter_share_offsets(
    connection: "BrokerConnection",
    group: str,
    offsets: Mapping[TopicPartition, Committed],
    timeout_ms: int,
) -> None:
    """Set the start offsets of a share group without members."""
    response = await connection.call(
        AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=[
                        AlterShareGroupOffsetsRequestPartition(
                            partition_index=at.partition, start_offset=offsets[at].offset
                        )
                        for at in partitions
                    ],
                )
                for topic, partitions in by_topic(offsets).items()
            ],
        ),
        AlterShareGroupOffsetsResponse,
        timeout_ms=timeout_ms,
    )
    if response.error_code == Code.NON_EMPTY_GROUP:
        about = f"share group {group!r}"
        raise error_of(response.error_code, "it has members: stop them first", about=about)
    check(response.error_code, response.error_message, about=f"share group {group!r}")
    for topic in response.responses:
        for each in topic.partitions:
            at = TopicPartition(topic.topic_name, each.partition_index)
            check(each.error_code, each.error_message, about=f"share group {group!r}, {at}")


async def delete_share_offsets(
    connection: "BrokerConnection",
    group: str,
    partitions: Iterable[TopicPartition],
    timeout_ms: int,
) -> None:
    """Delete start offsets of a share group without members: those of whole topics only."""
    asked = by_topic(partitions)
    known = by_topic((await share_offsets(connection, [group], timeout_ms)).get(group, {}))
    for topic, there in known.items():
        if topic in asked and not set(there) <= set(asked[topic]):
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                f"share group {group!r} can delete its offsets of the whole topic {topic!r} only,"
                " not of some partitions",
            )
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in asked]
    response = await connection.call(
        DeleteShareGroupOffsetsRequest(group_id=group, topics=topics),
        DeleteShareGroupOffsetsResponse,
        timeout_ms=timeout_ms,
    )
    check(response.error_code, response.error_message, about=f"share group {group!r}")
    for each in response.responses:
        check(each.error_code, each.error_message, about=f"share group {group!r}")
