"""StreamsGroupDescribe: epochs, the topology, members and their tasks."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.described_groups import describe_groups
from barnabas.coordinators.groups.streams.group import StreamsGroup
from barnabas.coordinators.groups.streams.member import StreamsMember
from barnabas.coordinators.groups.streams.records import RecordedTopicInfo
from barnabas.coordinators.groups.streams.tasks import TargetOfTasks
from barnabas.coordinators.groups.streams.topology import StreamsTopology
from barnabas.model.errors import Code
from barnabas.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: StreamsGroupDescribeRequest, call: Call) -> Reply:
    def look() -> StreamsGroupDescribeResponse:
        groups = describe_groups(broker, request, StreamsGroup, _describe, refused)
        return StreamsGroupDescribeResponse(groups=groups)

    return coordination(broker).look(look, request.group_ids)


def _describe(broker: "GroupsContext", group: StreamsGroup, operations: int) -> DescribedGroup:
    stored = group.stored
    return DescribedGroup(
        error_code=0,
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=stored.epoch,
        assignment_epoch=stored.target_epoch,
        topology=None if stored.topology is None else _topology(group, stored.topology),
        members=[_member(member, stored.target(member.id)) for member in stored.members.values()],
        authorized_operations=operations,
    )


def _topology(group: StreamsGroup, topology: StreamsTopology) -> Topology:
    """With the partitions of internal topics, as far as they are decided."""
    configured = group.configured
    decided: dict[str, int] = {}
    if configured is not None and configured.is_ready:
        for part in configured.subtopologies.values():
            for topics in (part.repartition_source_topics, part.state_changelog_topics):
                decided |= {name: topic.partitions for name, topic in topics.items()}

    def described(infos: Iterable[RecordedTopicInfo]) -> list[TopicInfo]:
        return [
            TopicInfo(
                name=each.name,
                partitions=decided.get(each.name, each.partitions),
                replication_factor=each.replication_factor,
                topic_configs=[KeyValue(key=c.key, value=c.value) for c in each.topic_configs],
            )
            for each in sorted(infos, key=lambda info: info.name)
        ]

    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=id_,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sink_topics),
                state_changelog_topics=described(each.state_changelog_topics),
                repartition_source_topics=described(each.repartition_source_topics),
            )
            for id_, each in topology.subtopologies.items()
        ],
    )


def _member(member: StreamsMember, target: TargetOfTasks) -> Member:
    endpoint = member.endpoint
    return Member(
        member_id=member.id,
        member_epoch=member.epoch,
        instance_id=None,
        rack_id=member.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None
        if endpoint is None
        else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.tags],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_assignment(member.assigned.active, member.assigned.standby),
        target_assignment=_assignment(target.active, target.standby),
        is_classic=False,
    )


def _assignment(
    active: Mapping[str, Iterable[int]], standby: Mapping[str, Iterable[int]]
) -> Assignment:
    return Assignment(active_tasks=_tasks(active), standby_tasks=_tasks(standby), warmup_tasks=[])


def _tasks(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=id_, partitions=list(numbers)) for id_, numbers in tasks.items()]


def refused(group_id: str, code: Code, why: str | None) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=why,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=[],
    )
