"""Requests about share groups: members, descriptions, start offsets."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization.answers import Handle, after, changed
from barnabas.broker.authorization.group_requests import (
    GroupDescription,
    describe_check,
    heartbeat_denied,
    seeing,
)
from barnabas.broker.authorization.requester import Requester
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.security.acl.rules import AclOperation
from barnabas.wire.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    describe_share_partitions,
    share_group_heartbeat,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

DENIED = Code.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = Code.TOPIC_AUTHORIZATION_FAILED


def share_group_heartbeat_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """READ on the group, and DESCRIBE on every topic that it names."""
    code = heartbeat_denied(request, caller)
    if not code:
        return handle(broker, request, call)
    return share_group_heartbeat.ShareGroupHeartbeatResponse(
        error_code=code, error_message=code.text, member_epoch=0, heartbeat_interval_ms=0
    )


def share_group_describe_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    from barnabas.broker.handlers.share_group_describe import refused

    def topics(group: Any) -> Iterable[str]:
        return (
            each.topic_name
            for member in group.members
            for each in member.assignment.topic_partitions
        )

    return describe_check(handle, broker, request, call, caller, GroupDescription(topics, refused))


def describe_share_group_offsets_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """DESCRIBE on the group and on the topics; of all topics, those that may be described."""
    groups = []
    refusals = []
    denied: dict[str, list[Any]] = {}
    every = set()
    for group in request.groups:
        if not caller.group(AclOperation.DESCRIBE, group.group_id):
            refusals.append(
                describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup(
                    group_id=group.group_id,
                    topics=[],
                    error_code=DENIED,
                    error_message=DENIED.text,
                )
            )
            continue
        if group.topics is None:
            every.add(group.group_id)
            groups.append(group)
            continue
        allowed = []
        for topic in group.topics:
            if caller.topic(AclOperation.DESCRIBE, topic.topic_name):
                allowed.append(topic)
            else:
                denied.setdefault(group.group_id, []).append(_no_offsets(topic))
        groups.append(changed(group, topics=allowed))

    def seen(group: Any) -> Any:
        topics = group.topics
        if group.group_id in every:
            topics = [
                topic
                for topic in topics
                if caller.topic(AclOperation.DESCRIBE, topic.topic_name, quiet=True)
            ]
        return changed(group, topics=[*topics, *denied.get(group.group_id, ())])

    return after(
        handle(broker, changed(request, groups=groups), call),
        lambda response: changed(response, groups=[*map(seen, response.groups), *refusals]),
    )


def _no_offsets(topic: Any) -> Any:
    return describe_share_group_offsets.DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=NO_TOPIC_ID,
        partitions=[
            describe_share_group_offsets.DescribeShareGroupOffsetsResponsePartition(
                partition_index=number,
                start_offset=0,
                leader_epoch=0,
                error_code=TOPIC_DENIED,
                error_message=TOPIC_DENIED.text,
            )
            for number in topic.partitions
        ],
    )


def alter_share_group_offsets_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """READ on the group and on the topics."""
    if not caller.group(AclOperation.READ, request.group_id):
        return alter_share_group_offsets.AlterShareGroupOffsetsResponse(
            error_code=DENIED, error_message=DENIED.text, responses=[]
        )

    def refused(topic: alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic) -> Any:
        return alter_share_group_offsets.AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            topic_id=NO_TOPIC_ID,
            partitions=[
                alter_share_group_offsets.AlterShareGroupOffsetsResponsePartition(
                    partition_index=each.partition_index,
                    error_code=TOPIC_DENIED,
                    error_message=TOPIC_DENIED.text,
                )
                for each in topic.partitions
            ],
        )

    return _of_readable_topics(handle, broker, request, call, caller, refused)


def delete_share_group_offsets_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """DELETE on the group, READ on the topics."""
    if not caller.group(AclOperation.DELETE, request.group_id):
        return delete_share_group_offsets.DeleteShareGroupOffsetsResponse(
            error_code=DENIED, error_message=DENIED.text, responses=[]
        )

    def refused(topic: delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic) -> Any:
        return delete_share_group_offsets.DeleteShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            topic_id=NO_TOPIC_ID,
            error_code=TOPIC_DENIED,
            error_message=TOPIC_DENIED.text,
        )

    return _of_readable_topics(handle, broker, request, call, caller, refused)


def _of_readable_topics(
    handle: Handle,
    broker: "Broker",
    request: Any,
    call: Call,
    caller: Requester,
    refused: Callable[[Any], Any],
) -> Any:
    """READ on the topics. As in Kafka, an error of the group says nothing about topics."""
    allowed: list[Any] = []
    refusals: list[Any] = []
    for topic in request.topics:
        if caller.topic(AclOperation.READ, topic.topic_name):
            allowed.append(topic)
        else:
            refusals.append(refused(topic))

    def finish(response: Any) -> Any:
        if response.error_code:
            return response
        return changed(response, responses=[*response.responses, *refusals])

    return after(handle(broker, changed(request, topics=allowed), call), finish)


def describe_share_partitions_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """DESCRIBE on the group; topics that the client may not describe are left out."""
    if not caller.group(AclOperation.DESCRIBE, request.group_id):
        return describe_share_partitions.DescribeSharePartitionsResponse(
            error_code=DENIED, error_message=DENIED.text, partitions=[]
        )
    return handle(broker, request, seeing(call, caller))
