"""Requests that name topics: those that are denied are answered here, the others by the handler."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization.answers import Handle, after, changed
from barnabas.broker.authorization.requester import Requester
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.security.acl.rules import AclOperation
from barnabas.wire.messages import (
    delete_records,
    describe_logs,
    describe_producers,
    list_offsets,
    offset_for_leader_epoch,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

DENIED = Code.TOPIC_AUTHORIZATION_FAILED
Refused = Callable[[Any], Any]
"""From a topic of the request, its place in the response."""


def split(
    handle: Handle,
    broker: "Broker",
    request: Any,
    call: Call,
    may: Callable[[Any], bool],
    refused: Refused,
) -> Any:
    """For requests and responses that have their topics in `topics`."""
    allowed: list[Any] = []
    denied: list[Any] = []
    for topic in request.topics:
        (allowed if may(topic) else denied).append(topic)
    if not denied:
        return handle(broker, request, call)
    answer = handle(broker, changed(request, topics=allowed), call)
    refusals = [refused(topic) for topic in denied]
    return after(answer, lambda response: changed(response, topics=response.topics + refusals))


def list_offsets_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    def refused(topic: list_offsets.ListOffsetsTopic) -> list_offsets.ListOffsetsTopicResponse:
        return list_offsets.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                list_offsets.ListOffsetsPartitionResponse(
                    partition_index=each.partition_index, error_code=DENIED
                )
                for each in topic.partitions
            ],
        )

    def may(topic: list_offsets.ListOffsetsTopic) -> bool:
        return caller.topic(AclOperation.DESCRIBE, topic.name)

    return split(handle, broker, request, call, may, refused)


def offset_for_leader_epoch_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    if caller.cluster(AclOperation.CLUSTER_ACTION, quiet=True):
        return handle(broker, request, call)

    def refused(topic: offset_for_leader_epoch.OffsetForLeaderTopic) -> Any:
        return offset_for_leader_epoch.OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[
                offset_for_leader_epoch.EpochEndOffset(error_code=DENIED, partition=each.partition)
                for each in topic.partitions
            ],
        )

    def may(topic: offset_for_leader_epoch.OffsetForLeaderTopic) -> bool:
        return caller.topic(AclOperation.DESCRIBE, topic.topic)

    return split(handle, broker, request, call, may, refused)


def delete_records_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    def refused(topic: delete_records.DeleteRecordsTopic) -> Any:
        return delete_records.DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                delete_records.DeleteRecordsPartitionResult(
                    partition_index=each.partition_index, low_watermark=-1, error_code=DENIED
                )
                for each in topic.partitions
            ],
        )

    def may(topic: delete_records.DeleteRecordsTopic) -> bool:
        return caller.topic(AclOperation.DELETE, topic.name)

    return split(handle, broker, request, call, may, refused)


def describe_producers_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    def refused(topic: describe_producers.TopicRequest) -> Any:
        return describe_producers.TopicResponse(
            name=topic.name,
            partitions=[
                describe_producers.PartitionResponse(
                    partition_index=index,
                    error_code=DENIED,
                    error_message=DENIED.text,
                    active_producers=[],
                )
                for index in topic.partition_indexes
            ],
        )

    def may(topic: describe_producers.TopicRequest) -> bool:
        return caller.topic(AclOperation.READ, topic.name)

    return split(handle, broker, request, call, may, refused)


def describe_logs_check(
    handle: Handle,
    broker: "Broker",
    request: describe_logs.DescribeLogsRequest,
    call: Call,
    caller: Requester,
) -> Any:
    """Our own API: one topic."""
    if caller.topic(AclOperation.DESCRIBE, request.topic):
        return handle(broker, request, call)
    return describe_logs.DescribeLogsResponse(
        logs=[
            describe_logs.DescribedLog(partition=index, replicas=[], error_code=DENIED)
            for index in request.partitions
        ]
    )
