"""Produce: batches into logs.

Always: the order of arrival is the order in the log; no record is looked at; where records
count only once they are synced, or on other brokers too, the answer waits for that, but no
longer than the producer wants to.
"""

from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.broker.dispatch import Call
from barnabas.broker.later import Later
from barnabas.broker.partition import ACKS_ALL
from barnabas.broker.uncommitted import Outcome
from barnabas.model.errors import Code, InvalidRequest, KafkaError, RecordsRefused
from barnabas.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.topic import Topic

LEADERS_SINCE = 10  # an answer can say who leads instead
TOPIC_IDS_SINCE = 13
_ACKS = (ACKS_ALL, 0, 1)

WAIT_MS_MAX = 600_000  # nobody needs longer, and what waits holds memory
_NO_LEADER = LeaderIdAndEpoch()

Wait = tuple[PartitionProduceResponse, Later[Outcome]]
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
        if error.code is not Code.NOT_LEADER_OR_FOLLOWER:  # while leaders change, everybody asks
            broker.refused(
                "append refused", call, error, partitions=len(refused), topic=name, partition=index
            )
        if request.acks == 0:  # a closed connection is the only way left to tell the producer
            raise KafkaError(error.code, error.detail)
    if request.acks == 0:
        return None
    response = ProduceResponse(responses=responses)
    named = broker.cluster is not None and call.version >= LEADERS_SINCE
    if refused and named:
        response = _with_leaders(broker, responses, by_id)
    return _Waiting(broker, response, waits, request, named).later if waits else response


class _Waiting:
    """A response whose records do not all count yet."""

    __slots__ = (
        "_broker", "_left", "_named", "_outcomes", "_response", "_timer", "_waits", "later",
    )  # fmt: skip

    def __init__(
        self,
        broker: "Broker",
        response: ProduceResponse,
        waits: list[Wait],
        request: ProduceRequest,
        named: bool,
    ) -> None:
        self._named = named
        self._broker = broker
        self._response = response
        self._waits = waits
        self._left = len(waits)
        self._outcomes: dict[int, KafkaError] = {}  # by the place in `waits`
        self.later: Later[ProduceResponse] = Later()
        wait_s = min(max(request.timeout_ms, 0), WAIT_MS_MAX) / 1000
        self._timer = broker.loop.call_later(wait_s, self._late)
        self.later.cancelled = self._timer.cancel
        for number, (_, committed) in enumerate(waits):
            committed.then(lambda outcome, number=number: self._told(number, outcome))  # type: ignore[misc]

    def _told(self, number: int, outcome: Outcome) -> None:
        if self.later.done:
            return
        if outcome is not None:
            self._outcomes[number] = outcome
        self._left -= 1
        if not self._left:
            self._finish()

    def _late(self) -> None:
        late = KafkaError(
            Code.REQUEST_TIMED_OUT,
            "timed out waiting for the in-sync replicas; the records may still be committed",
        )
        for number, (_, committed) in enumerate(self._waits):
            if not committed.done:
                self._outcomes[number] = late
        self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        response = self._response
        if self._outcomes:
            refused = {id(self._waits[n][0]): error for n, error in self._outcomes.items()}
            responses = [
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        _refusal(each.index, refused[id(each)]) if id(each) in refused else each
                        for each in topic.partition_responses
                    ],
                )
                for topic in response.responses
            ]
            by_id = bool(responses) and not responses[0].name
            response = (
                _with_leaders(self._broker, responses, by_id)
                if self._named
                else ProduceResponse(responses=responses)
            )
        self.later.set(response)


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
                Code.INVALID_TOPIC_EXCEPTION,
                f"topic {topic.name} is internal; only the broker writes to it",
            )
        if request.acks not in _ACKS:
            raise InvalidRequest(
                Code.INVALID_REQUIRED_ACKS,
                f"acks={request.acks} is not valid; expected -1 (all), 0 or 1",
            )
        if request.transactional_id is not None:
            raise InvalidRequest(
                Code.INVALID_TXN_STATE,
                "transactions are not supported yet; leave transactional.id out",
            )
        if not records:
            raise InvalidRequest(
                Code.INVALID_RECORD, "the request has no records for the partition"
            )
        partition = topic.partition(data.index)
        appended = partition.append(memoryview(records), request.acks, wall_ms)
    except KafkaError as error:
        error.__traceback__ = None  # it holds the request's bytes, and this list
        refused.append((topic.name if topic else None, data.index, error))
        if isinstance(error, RecordsRefused):
            return _records_refused(data.index, error, partition.log.start_offset)
        return _refusal(data.index, error)
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
        committed = partition.wait_for(appended.last_offset, request.acks)
        if committed is not None:
            waits.append((response, committed))
    return response


def _refusal(
    index: int, error: KafkaError, leader: LeaderIdAndEpoch = _NO_LEADER
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        error_message=error.detail,
        current_leader=leader,
    )


def _records_refused(
    index: int, error: RecordsRefused, log_start_offset: int
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=why)
            for number, why in error.records
        ],
        error_message=error.detail,
    )


def _with_leaders(
    broker: "Broker", responses: list[TopicProduceResponse], by_id: bool
) -> ProduceResponse:
    """Whoever asked the wrong broker is told who leads, and where that is."""
    assert broker.cluster is not None
    leaders: dict[int, None] = {}
    for response in responses:
        topic = (
            broker.topics.by_id(response.topic_id) if by_id else broker.topics.get(response.name)
        )
        if topic is None:
            continue
        for place, answer in enumerate(response.partition_responses):
            if answer.error_code != Code.NOT_LEADER_OR_FOLLOWER:
                continue
            known = topic.partitions[answer.index]
            leaders[known.leader] = None
            response.partition_responses[place] = _refusal(
                answer.index,
                KafkaError(Code.NOT_LEADER_OR_FOLLOWER, answer.error_message or ""),
                LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch),
            )
    endpoints = [
        NodeEndpoint(node_id=member.id, host=member.host, port=member.port, rack=member.rack)
        for member in broker.cluster.members.values()
        if member.id in leaders
    ]
    return ProduceResponse(responses=responses, node_endpoints=endpoints)
