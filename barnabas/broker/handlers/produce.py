"""Produce: batches into logs.

Always: the order of arrival is the order in the log; no record is looked at; where records
count only once they are synced, so does the answer.
"""

from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.broker.dispatch import Call
from barnabas.broker.later import Later
from barnabas.broker.partition import ACKS_ALL
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.topic import Topic

TOPIC_IDS_SINCE = 13
_ACKS = (ACKS_ALL, 0, 1)

Wait = tuple[PartitionProduceResponse, Later[str]]
Refusal = tuple[str | None, int, KafkaError]  # topic, if there is one, and partition


def handle(
    broker: "Broker", request: ProduceRequest, call: Call
) -> ProduceResponse | Later[ProduceResponse] | Coroutine[Any, Any, ProduceResponse | None] | None:
    by_id = call.version >= TOPIC_IDS_SINCE
    if broker.recompression is not None and broker.recompression.concerns(request, by_id):
        from barnabas.broker.recompression import keep

        keep(request)
        return broker.recompression.append(request, call, by_id)
    return append_all(broker, request, call, by_id, {})


def append_all(
    broker: "Broker",
    request: ProduceRequest,
    call: Call,
    by_id: bool,
    refusals: Mapping[int, KafkaError],
) -> ProduceResponse | Later[ProduceResponse] | None:
    """`refusals`: by the id of a partition's data, what was found wrong with it already."""
    wall_ms = broker.clock.wall_ms()
    topics = broker.topics
    responses = []
    refused: list[Refusal] = []
    waits: list[Wait] = []
    for data in request.topic_data:
        topic = topics.by_id(data.topic_id) if by_id else topics.get(data.name)
        responses.append(
            TopicProduceResponse(
                name=data.name,
                topic_id=data.topic_id,
                partition_responses=[
                    _append(
                        broker, topic, partition, request, wall_ms, by_id, refused, refusals, waits
                    )
                    for partition in data.partition_data
                ],
            )
        )
    if refused:
        name, index, error = refused[0]
        broker.refused(
            "append refused", call, error, partitions=len(refused), topic=name, partition=index
        )
        if request.acks == 0:  # a closed connection is the only way left to tell the producer
            raise KafkaError(error.code, error.detail)
    if request.acks == 0:
        return None
    response = ProduceResponse(responses=responses)
    return _when_committed(response, waits) if waits else response


def _when_committed(response: ProduceResponse, waits: list[Wait]) -> Later[ProduceResponse]:
    """The response, once the last of its partitions is synced, or never will be."""
    answer: Later[ProduceResponse] = Later()
    left = len(waits)

    def told(reason: str, partition: PartitionProduceResponse) -> None:
        nonlocal left
        if reason:
            for topic in response.responses:
                topic.partition_responses[:] = [
                    _refusal(each.index, Code.KAFKA_STORAGE_ERROR, reason)
                    if each is partition
                    else each
                    for each in topic.partition_responses
                ]
        left -= 1
        if not left:
            answer.set(response)

    for partition, committed in waits:
        committed.then(lambda reason, partition=partition: told(reason, partition))  # type: ignore[misc]
    return answer


def _append(
    broker: "Broker",
    topic: "Topic | None",
    data: PartitionProduceData,
    request: ProduceRequest,
    wall_ms: int,
    by_id: bool,
    refused: list[Refusal],
    refusals: Mapping[int, KafkaError],
    waits: list[Wait],
) -> PartitionProduceResponse:
    records = data.records
    try:
        if refusals and id(data) in refusals:
            raise refusals[id(data)]
        if topic is None:
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC_OR_PARTITION
            )
        if topic.internal:
            raise InvalidRequest(
                Code.INVALID_TOPIC_EXCEPTION, f"{topic.name} is the broker's own: it writes it"
            )
        if request.acks not in _ACKS:
            raise InvalidRequest(Code.INVALID_REQUIRED_ACKS, f"acks={request.acks}; -1, 0 or 1")
        if request.transactional_id is not None:
            raise InvalidRequest(Code.INVALID_TXN_STATE, "transactions are not supported yet")
        if not records:
            raise InvalidRequest(Code.INVALID_RECORD, "a produce request without records")
        partition = topic.partition(data.index)
        appended = partition.append(memoryview(records), request.acks, wall_ms)
    except KafkaError as error:
        error.__traceback__ = None  # it holds the request's bytes, and this list
        refused.append((topic.name if topic else None, data.index, error))
        return _refusal(data.index, error.code, error.detail)
    broker.counts.produced(len(records))
    log = partition.log
    response = PartitionProduceResponse(
        index=data.index,
        error_code=0,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=log.start_offset,
    )
    if log.high_watermark <= appended.last_offset:
        committed = partition.committed(appended.last_offset)
        if committed is not None:
            waits.append((response, committed))
    return response


def _refusal(index: int, code: Code, detail: str) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        error_message=detail,
    )
