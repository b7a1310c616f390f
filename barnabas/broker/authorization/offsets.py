"""Requests about committed offsets: the group, and then each topic."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization.answers import Handle, after, changed
from barnabas.broker.authorization.requester import Requester
from barnabas.broker.authorization.topics import split
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.security.acl.rules import AclOperation
from barnabas.wire.messages import offset_commit, offset_delete, offset_fetch, txn_offset_commit

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

TOPIC_DENIED = Code.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = Code.GROUP_AUTHORIZATION_FAILED
NO_OFFSET = -1
COMMIT_IDS_SINCE = 10
FETCH_GROUPS_SINCE = 8


def _refusal(
    broker: "Broker", caller: Requester, operation: AclOperation, name: str, id_: Any
) -> Code:
    """By id if there is one. An unknown id is answered here: until the handler looks, the topic
    may have been created."""
    if id_ != NO_TOPIC_ID:
        known = broker.topics.by_id(id_)
        if known is None:
            return Code.UNKNOWN_TOPIC_ID
        name = known.name
    named = id_ == NO_TOPIC_ID
    return Code.NONE if caller.topic(operation, name, named=named) else TOPIC_DENIED


def _may_see(broker: "Broker", caller: Requester, topic: Any) -> bool:
    """In silence, for what the client has not named."""
    name = topic.name
    if topic.topic_id != NO_TOPIC_ID:
        known = broker.topics.by_id(topic.topic_id)
        if known is None:
            return False
        name = known.name
    return caller.topic(AclOperation.DESCRIBE, name, quiet=True)


def _parted(
    topics: Sequence[Any], caller: Requester, operation: AclOperation
) -> tuple[list[Any], list[Any]]:
    """Those that are allowed, and the others."""
    allowed: list[Any] = []
    denied: list[Any] = []
    for topic in topics:
        (allowed if caller.topic(operation, topic.name) else denied).append(topic)
    return allowed, denied


def offset_commit_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    def refused(topic: offset_commit.OffsetCommitRequestTopic, code: Code) -> Any:
        return offset_commit.OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                offset_commit.OffsetCommitResponsePartition(
                    partition_index=each.partition_index, error_code=code
                )
                for each in topic.partitions
            ],
        )

    if not caller.group(AclOperation.READ, request.group_id):
        return offset_commit.OffsetCommitResponse(
            topics=[refused(topic, GROUP_DENIED) for topic in request.topics]
        )
    by_id = call.version >= COMMIT_IDS_SINCE

    def code_of(topic: offset_commit.OffsetCommitRequestTopic) -> Code:
        id_ = topic.topic_id if by_id else NO_TOPIC_ID
        return _refusal(broker, caller, AclOperation.READ, topic.name, id_)

    codes = [(topic, code_of(topic)) for topic in request.topics]
    refusals = [refused(topic, code) for topic, code in codes if code]
    if not refusals:
        return handle(broker, request, call)
    allowed = [topic for topic, code in codes if not code]
    if not allowed:
        return offset_commit.OffsetCommitResponse(topics=refusals)
    return after(
        handle(broker, changed(request, topics=allowed), call),
        lambda response: changed(response, topics=response.topics + refusals),
    )


def txn_offset_commit_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    def refused(topic: txn_offset_commit.TxnOffsetCommitRequestTopic, code: Code) -> Any:
        return txn_offset_commit.TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                txn_offset_commit.TxnOffsetCommitResponsePartition(
                    partition_index=each.partition_index, error_code=code
                )
                for each in topic.partitions
            ],
        )

    code = Code.NONE
    if not caller.transactional_id(AclOperation.WRITE, request.transactional_id):
        code = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not caller.group(AclOperation.READ, request.group_id):
        code = GROUP_DENIED
    if code:
        return txn_offset_commit.TxnOffsetCommitResponse(
            topics=[refused(topic, code) for topic in request.topics]
        )
    return split(
        handle,
        broker,
        request,
        call,
        lambda topic: caller.topic(AclOperation.READ, topic.name),
        lambda topic: refused(topic, TOPIC_DENIED),
    )


def offset_delete_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    if not caller.group(AclOperation.DELETE, request.group_id):
        return offset_delete.OffsetDeleteResponse(error_code=GROUP_DENIED, topics=[])

    def refused(topic: offset_delete.OffsetDeleteRequestTopic) -> Any:
        return offset_delete.OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                offset_delete.OffsetDeleteResponsePartition(
                    partition_index=each.partition_index, error_code=TOPIC_DENIED
                )
                for each in topic.partitions
            ],
        )

    def finish(response: offset_delete.OffsetDeleteResponse) -> offset_delete.OffsetDeleteResponse:
        if response.error_code:  # of the group: then there is nothing about topics
            return response
        return changed(response, topics=response.topics + list(map(refused, denied)))

    allowed, denied = _parted(request.topics, caller, AclOperation.READ)
    return after(handle(broker, changed(request, topics=allowed), call), finish)


def offset_fetch_check(
    handle: Handle,
    broker: "Broker",
    request: offset_fetch.OffsetFetchRequest,
    call: Call,
    caller: Requester,
) -> Any:
    if call.version >= FETCH_GROUPS_SINCE:
        return _fetch_of_groups(handle, broker, request, call, caller)
    if not caller.group(AclOperation.DESCRIBE, request.group_id):
        topics = [_old_refused(topic, GROUP_DENIED) for topic in request.topics or ()]
        if call.version >= _ERROR_OF_GROUP_SINCE:
            topics = []
        return offset_fetch.OffsetFetchResponse(topics=topics, error_code=GROUP_DENIED)
    describe = AclOperation.DESCRIBE
    if request.topics is None:

        def visible(response: offset_fetch.OffsetFetchResponse) -> Any:
            topics = [
                each for each in response.topics if caller.topic(describe, each.name, quiet=True)
            ]
            return changed(response, topics=topics)

        return after(handle(broker, request, call), visible)

    def with_refusals(response: offset_fetch.OffsetFetchResponse) -> Any:
        if response.error_code:
            return response
        refusals = [_old_refused(topic, TOPIC_DENIED) for topic in denied]
        return changed(response, topics=response.topics + refusals)

    allowed, denied = _parted(request.topics, caller, describe)
    return after(handle(broker, changed(request, topics=allowed), call), with_refusals)


_ERROR_OF_GROUP_SINCE = 2


def _old_refused(topic: offset_fetch.OffsetFetchRequestTopic, code: Code) -> Any:
    return offset_fetch.OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            offset_fetch.OffsetFetchResponsePartition(
                partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ],
    )


def _refused(topic: offset_fetch.OffsetFetchRequestTopics, code: Code) -> Any:
    return offset_fetch.OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            offset_fetch.OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                metadata="",
                error_code=code,
            )
            for index in topic.partition_indexes
        ],
    )


def _fetch_of_groups(
    handle: Handle,
    broker: "Broker",
    request: offset_fetch.OffsetFetchRequest,
    call: Call,
    caller: Requester,
) -> Any:
    allowed: list[offset_fetch.OffsetFetchRequestGroup] = []
    refused: list[offset_fetch.OffsetFetchResponseGroup] = []
    denied_topics: dict[str, list[offset_fetch.OffsetFetchResponseTopics]] = {}
    everything: set[str] = set()
    describe = AclOperation.DESCRIBE
    for group in request.groups:
        if not caller.group(describe, group.group_id):
            refused.append(
                offset_fetch.OffsetFetchResponseGroup(
                    group_id=group.group_id, topics=[], error_code=GROUP_DENIED
                )
            )
        elif group.topics is None:
            everything.add(group.group_id)
            allowed.append(group)
        else:
            codes = [
                (topic, _refusal(broker, caller, describe, topic.name, topic.topic_id))
                for topic in group.topics
            ]
            denied_topics[group.group_id] = [_refused(topic, code) for topic, code in codes if code]
            allowed.append(changed(group, topics=[topic for topic, code in codes if not code]))

    def finish(response: offset_fetch.OffsetFetchResponse) -> offset_fetch.OffsetFetchResponse:
        groups = []
        for group in response.groups:
            topics = group.topics
            if group.group_id in everything:
                topics = [each for each in topics if _may_see(broker, caller, each)]
            elif not group.error_code:
                topics = topics + denied_topics[group.group_id]
            groups.append(changed(group, topics=topics))
        return changed(response, groups=groups + refused)

    if not allowed:
        return offset_fetch.OffsetFetchResponse(groups=refused)
    return after(handle(broker, changed(request, groups=allowed), call), finish)
