"""Requests about streams groups: describe them.

Flows over `Net`, used by GroupCalls. Works with any Kafka broker that has streams groups.
"""

from typing import TYPE_CHECKING

from barnabas.client.errors import check
from barnabas.client.groups.answers import Description
from barnabas.client.groups.report import STREAMS, MemberReport, StreamsSubtopology, StreamsTask
from barnabas.model.errors import Code
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.streams_group_describe import (
    Assignment,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Topology,
)

if TYPE_CHECKING:
    from barnabas.client.net import BrokerConnection

STREAMS_GROUP_DESCRIBE = StreamsGroupDescribeRequest.api_key
ASSIGNOR = "sticky"


async def describe_streams_groups(
    connection: "BrokerConnection", groups: list[str], timeout_ms: int
) -> dict[str, Description]:
    """Those that are streams groups. Their members own the partitions that their active tasks
    read."""
    response = await connection.call(
        StreamsGroupDescribeRequest(group_ids=groups, include_authorized_operations=False),
        StreamsGroupDescribeResponse,
        timeout_ms=timeout_ms,
    )
    found = {}
    for each in response.groups:
        if each.error_code in (Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION):
            continue
        check(each.error_code, each.error_message, about=f"group {each.group_id!r}")
        topics = _read_topics(each.topology)
        found[each.group_id] = Description(
            each.group_id,
            each.group_state,
            STREAMS,
            STREAMS,
            ASSIGNOR,
            each.group_epoch,
            tuple(_member(member, topics) for member in each.members),
            _subtopologies(each.topology),
        )
    return found


def _read_topics(topology: Topology | None) -> dict[str, list[str]]:
    """By subtopology."""
    parts = () if topology is None else topology.subtopologies or ()
    return {
        part.subtopology_id: [
            *part.source_topics,
            *(topic.name for topic in part.repartition_source_topics),
        ]
        for part in parts
    }


def _subtopologies(topology: Topology | None) -> tuple[StreamsSubtopology, ...]:
    return tuple(
        StreamsSubtopology(
            part.subtopology_id,
            tuple(part.source_topics),
            tuple(topic.name for topic in part.repartition_source_topics),
            tuple(topic.name for topic in part.state_changelog_topics),
        )
        for part in (() if topology is None else topology.subtopologies or ())
    )


def _tasks(assignment: Assignment) -> tuple[StreamsTask, ...]:
    roles = {
        "active": assignment.active_tasks,
        "standby": assignment.standby_tasks,
        "warm-up": assignment.warmup_tasks,
    }
    return tuple(
        StreamsTask(role, each.subtopology_id, partition)
        for role, parts in roles.items()
        for each in parts
        for partition in each.partitions
    )


def _member(member: Member, topics: dict[str, list[str]]) -> MemberReport:
    return MemberReport(
        member.member_id,
        member.client_id,
        member.client_host,
        None,
        tuple(sorted({name for names in topics.values() for name in names})),
        tuple(
            TopicPartition(name, partition)
            for tasks in member.assignment.active_tasks
            for name in topics.get(tasks.subtopology_id, ())
            for partition in tasks.partitions
        ),
        _tasks(member.assignment),
    )
