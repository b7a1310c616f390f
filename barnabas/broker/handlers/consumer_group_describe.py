"""ConsumerGroupDescribe: epochs, members, and the current and target assignment of each."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.described_groups import describe_groups
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.consumer.member import ConsumerMember, Target
from barnabas.model.errors import Code
from barnabas.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext

CLASSIC, CONSUMER = 0, 1  # types of members


def handle(broker: "GroupsContext", request: ConsumerGroupDescribeRequest, call: Call) -> Reply:
    def look() -> ConsumerGroupDescribeResponse:
        groups = describe_groups(broker, request, ConsumerGroup, _describe, refused)
        return ConsumerGroupDescribeResponse(groups=groups)

    return coordination(broker).look(look, request.group_ids)


def _describe(broker: "GroupsContext", group: ConsumerGroup, operations: int) -> DescribedGroup:
    stored = group.stored
    return DescribedGroup(
        error_code=0,
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=stored.epoch,
        assignment_epoch=stored.target_epoch,
        assignor_name=stored.assignor(None, None, group.limits.consumer_assignors[0]),
        members=[
            _member(broker, member, stored.target(member.id)) for member in stored.members.values()
        ],
        authorized_operations=operations,
    )


def _member(broker: "GroupsContext", member: ConsumerMember, target: Target) -> Member:
    held: dict[UUID, list[int]] = {}
    for topic_id, partition in member.partitions():
        held.setdefault(topic_id, []).append(partition)
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(broker, held),
        target_assignment=_assignment(broker, target),
        member_type=CONSUMER if member.classic is None else CLASSIC,
    )


def _assignment(broker: "GroupsContext", partitions: Mapping[UUID, Iterable[int]]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
            if (topic := broker.topics.by_id(topic_id)) is not None
        ]
    )


def refused(group_id: str, code: Code, why: str | None) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=why,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
