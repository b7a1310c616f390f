"""Produce and Fetch: the rights to write and to read records."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas.broker.authorization.answers import Handle, after, changed
from barnabas.broker.authorization.requester import Requester
from barnabas.broker.handlers import fetch as fetch_handler
from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.read_replica import failed
from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.acl.rules import AclOperation
from barnabas.wire.batch import HEADER_SIZE, TRANSACTIONAL
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from barnabas.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

DENIED = Code.TOPIC_AUTHORIZATION_FAILED
READ, WRITE = AclOperation.READ, AclOperation.WRITE
_ATTRIBUTES_LAST = 22  # the byte of a batch header that has the transactional bit
PRODUCE_IDS_SINCE = 13
FETCH_IDS_SINCE = 13


def produce_check(
    handle: Handle, broker: "Broker", request: ProduceRequest, call: Call, caller: Requester
) -> Any:
    id_ = request.transactional_id
    if (id_ is not None and not caller.transactional_id(WRITE, id_)) or (
        id_ is None and _has_transactional_batches(request)
    ):
        code = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _refused_all(request, [_refused(topic, code) for topic in request.topic_data])
    denied: list[TopicProduceData] = []
    by_id = call.version >= PRODUCE_IDS_SINCE
    for topic in request.topic_data:
        name = topic.name
        if by_id:
            known = broker.topics.by_id(topic.topic_id)
            if known is None:  # the handler says that the id is unknown
                continue
            name = known.name
        if not caller.topic(WRITE, name, named=not by_id):
            denied.append(topic)
    if not denied:
        return handle(broker, request, call)
    refused = set(map(id, denied))
    allowed = [topic for topic in request.topic_data if id(topic) not in refused]
    refusals = [_refused(topic, DENIED) for topic in denied]
    if not allowed:
        return _refused_all(request, refusals)
    answer = handle(broker, changed(request, topic_data=allowed), call)
    if request.acks == 0:  # closing the connection is the only way to report the error
        raise InvalidRequest(DENIED, f"topic {denied[0].name[:300]!r}")
    return after(
        answer, lambda response: changed(response, responses=response.responses + refusals)
    )


def _refused_all(request: ProduceRequest, refusals: list[TopicProduceResponse]) -> ProduceResponse:
    if request.acks == 0:
        raise InvalidRequest(DENIED, "access denied to a producer with acks=0")
    return ProduceResponse(responses=refusals)


def _refused(topic: TopicProduceData, code: Code) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(index=each.index, error_code=code, base_offset=-1)
            for each in topic.partition_data
        ],
    )


def _has_transactional_batches(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for each in topic.partition_data:
            records = each.records
            if (
                records is not None
                and len(records) >= HEADER_SIZE
                and records[_ATTRIBUTES_LAST] & TRANSACTIONAL
            ):
                return True
    return False


def fetch_check(
    handle: Handle, broker: "Broker", request: FetchRequest, call: Call, caller: Requester
) -> Any:
    """The handler asks for each partition, also for those of a fetch session, and again when a
    long poll ends: a right that was taken away meanwhile is gone."""
    if request.replica_state.replica_id >= 0 or request.replica_id >= 0:
        if caller.cluster(AclOperation.CLUSTER_ACTION):
            return handle(broker, request, call)
        return _refused_fetch(request)
    return fetch_handler.handle(broker, request, call, _denied(broker, caller))


def _denied(broker: "Broker", caller: Requester) -> Callable[[str | UUID], bool]:
    def denied(topic: str | UUID) -> bool:
        if isinstance(topic, UUID):
            known = broker.topics.by_id(topic)
            return known is not None and not caller.topic(READ, known.name, named=False)
        return not caller.topic(READ, topic)

    return denied


def _refused_fetch(request: FetchRequest) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[failed(each.partition, DENIED, None) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
