"""ShareGroupDescribe: epochs, members and the partitions of each."""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.described_groups import describe_groups
from barnabas.coordinators.groups.share.group import ASSIGNOR, ShareGroup
from barnabas.coordinators.groups.share.member import ShareMember
from barnabas.model.errors import Code
from barnabas.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: ShareGroupDescribeRequest, call: Call) -> Reply:
    def look() -> ShareGroupDescribeResponse:
        groups = describe_groups(broker, request, ShareGroup, _describe, refused)
        return ShareGroupDescribeResponse(groups=groups)

    return coordination(broker).look(look, request.group_ids)


def _describe(broker: "GroupsContext", group: ShareGroup, operations: int) -> DescribedGroup:
    stored = group.stored
    return DescribedGroup(
        error_code=0,
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=stored.epoch,
        assignment_epoch=stored.target_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(broker, member) for member in stored.members.values()],
        authorized_operations=operations,
    )


def _member(broker: "GroupsContext", member: ShareMember) -> Member:
    return Member(
        member_id=member.id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(
                    topic_id=topic_id, topic_name=topic.name, partitions=list(partitions)
                )
                for topic_id, partitions in member.assigned.items()
                if (topic := broker.topics.by_id(topic_id)) is not None
            ]
        ),
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
