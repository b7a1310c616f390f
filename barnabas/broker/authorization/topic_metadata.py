"""Metadata, DescribeTopicPartitions, DescribeCluster: which topics a client may know of.

Always: a topic that a client may not describe is answered as denied whether it exists or not; a
request for all topics leaves it out in silence. Ids are no secret: an unknown id is unknown, a
known one is denied, without its name.
"""

from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization.answers import Handle, after, changed
from barnabas.broker.authorization.requester import TOPIC, Requester
from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.authorized_operations import NOT_ASKED
from barnabas.model.errors import Code
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.security.acl.rules import AclOperation
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

DENIED = Code.TOPIC_AUTHORIZATION_FAILED
NULL_MEANS_ALL_SINCE = 1


def metadata_check(
    handle: Handle, broker: "Broker", request: MetadataRequest, call: Call, caller: Requester
) -> Any:
    asked = request.topics
    everything = asked is None or (not asked and call.version < NULL_MEANS_ALL_SINCE)

    def finish(response: MetadataResponse) -> MetadataResponse:
        topics = response.topics
        if everything:
            topics = [each for each in topics if _may_describe(caller, each.name, quiet=True)]
        return _with_operations(request, changed(response, topics=topics + refusals), caller)

    refusals: list[MetadataResponseTopic] = []
    if everything:
        return after(handle(broker, request, call), finish)
    allowed: list[MetadataRequestTopic] = []
    for topic in dict.fromkeys((each.topic_id, each.name) for each in asked or ()):
        id_, name = topic
        if id_ != NO_TOPIC_ID:
            known = broker.topics.by_id(id_)
            if known is not None and not caller.topic(
                AclOperation.DESCRIBE, known.name, named=False
            ):
                refusals.append(_refused(None, id_))
                continue
        elif name is not None and not (
            caller.topic(AclOperation.DESCRIBE, name)
            and _may_create_if_missing(broker, request, caller, name)
        ):
            refusals.append(_refused(name, NO_TOPIC_ID))
            continue
        allowed.append(MetadataRequestTopic(topic_id=id_, name=name))
    if not allowed and call.version < NULL_MEANS_ALL_SINCE:
        # An empty list would mean all topics: ask for none by a name that nothing has.
        answer = handle(broker, changed(request, topics=[MetadataRequestTopic(name="")]), call)
        return after(answer, lambda response: finish(changed(response, topics=[])))
    return after(handle(broker, changed(request, topics=allowed), call), finish)


def _may_describe(caller: Requester, name: str | None, *, quiet: bool) -> bool:
    return name is not None and caller.topic(AclOperation.DESCRIBE, name, quiet=quiet)


def _may_create_if_missing(
    broker: "Broker", request: MetadataRequest, caller: Requester, name: str
) -> bool:
    create = AclOperation.CREATE
    return (
        not request.allow_auto_topic_creation
        or not broker.config.auto_create_topics_enable
        or broker.topics.get(name) is not None
        or caller.cluster(create, quiet=True)
        or caller.topic(create, name)
    )


def _refused(name: str | None, id_: Any) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=DENIED, name=name, topic_id=id_, partitions=[])


def _with_operations(
    request: MetadataRequest, response: MetadataResponse, caller: Requester
) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        topics = [
            changed(topic, topic_authorized_operations=caller.operations(TOPIC, topic.name))
            if topic.name is not None and topic.error_code != DENIED
            else topic
            for topic in response.topics
        ]
        response = changed(response, topics=topics)
    if response.cluster_authorized_operations != NOT_ASKED:
        response = changed(response, cluster_authorized_operations=caller.cluster_operations())
    return response


def describe_topic_partitions_check(
    handle: Handle,
    broker: "Broker",
    request: DescribeTopicPartitionsRequest,
    call: Call,
    caller: Requester,
) -> Any:
    cursor = request.cursor
    describe = AclOperation.DESCRIBE
    begin = "" if cursor is None else cursor.topic_name
    if request.topics:
        asked = dict.fromkeys(each.name for each in request.topics)
        if cursor is not None and cursor.topic_name not in asked:
            return handle(broker, request, call)  # which refuses all of it
        may = {name: caller.topic(describe, name) for name in asked}
        names = [name for name in asked if may[name]]
        denied = [name for name in asked if not may[name] and name >= begin]
    else:
        # All topics: the page is made of those that may be seen, so that it is neither short nor
        # ends with the name of another.
        names = [
            topic.name for topic in broker.topics if caller.topic(describe, topic.name, quiet=True)
        ]
        denied = []

    def finish(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        topics = [
            changed(topic, topic_authorized_operations=caller.operations(TOPIC, topic.name or ""))
            for topic in response.topics
        ]
        refusals = [
            DescribeTopicPartitionsResponseTopic(
                error_code=DENIED, name=name, topic_id=NO_TOPIC_ID, partitions=[]
            )
            for name in denied
        ]
        return changed(response, topics=topics + refusals)

    names = [name for name in names if name >= begin]
    if not names:
        return finish(DescribeTopicPartitionsResponse(topics=[]))
    if cursor is not None and cursor.topic_name not in names:  # deleted, or denied since
        cursor = None
    asked_topics = [TopicRequest(name=name) for name in names]
    return after(handle(broker, changed(request, topics=asked_topics, cursor=cursor), call), finish)


def describe_cluster_check(
    handle: Handle, broker: "Broker", request: DescribeClusterRequest, call: Call, caller: Requester
) -> Any:
    def finish(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if request.include_cluster_authorized_operations and not response.error_code:
            return changed(response, cluster_authorized_operations=caller.cluster_operations())
        return response

    return after(handle(broker, request, call), finish)
