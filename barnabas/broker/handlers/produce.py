"""Produce: appends batches to logs.

Always: the order of arrival is the order in the log; records are not read. If records are committed
only after a sync, or by other brokers too, the reply waits for that, but no longer than the
producer's timeout.
Not here: the wait (requests/delayed_produce.py).
"""

from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.broker.partition import ACKS_ALL
from barnabas.broker.requests.delayed_produce import WAIT_MS_MAX, ProduceWait, UncommittedResult
from barnabas.broker.requests.produce_errors import CurrentLeaders, refusal
from barnabas.model.errors import Code, InvalidRequest, KafkaError, RecordsRefused, Retriable
from barnabas.model.ports import Buffer
from barnabas.wire.batch import HEADER_SIZE, TRANSACTIONAL, read_header
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.partition import Partition
    from barnabas.broker.topic import Topic
    from barnabas.log.transactions.verification import VerificationGuard

LEADERS_SINCE = 10  # a response can name the leader
TOPIC_IDS_SINCE = 13
_ACKS = (ACKS_ALL, 0, 1)
# After these errors a producer sends the batch again, and expects later ones to wait for it.
_RETRIED_IN_ORDER = (
    Code.NOT_ENOUGH_REPLICAS,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.KAFKA_STORAGE_ERROR,  # also if a file cannot be opened, or memory is short
)

Refused = Mapping[tuple[int, int], KafkaError]
"""Batches that cannot be appended, by the indexes of topic and partition in the request: they
could not be recompressed, or the transaction coordinator did not agree."""


class Refusal(NamedTuple):
    """Why the records for a partition were not appended."""

    topic: str | None  # None: the topic does not exist
    partition: int
    error: KafkaError


Appended = ProduceResponse | DeferredReply[ProduceResponse] | None
"""None: the producer expects no response (acks=0)."""
Answer = Appended | Coroutine[Any, Any, Appended]


def handle(broker: "Broker", request: ProduceRequest, call: Call) -> Answer:
    by_id = call.version >= TOPIC_IDS_SINCE
    if broker.recompression is not None and broker.recompression.concerns(request, by_id):
        return broker.recompression.append(
            request, by_id, lambda refused: _append(broker, request, call, by_id, refused)
        )
    if request.transactional_id is not None:
        return _append(broker, request, call, by_id, {})
    return ProduceInProgress(broker, request, call, by_id, {}).append()


def _append(
    broker: "Broker", request: ProduceRequest, call: Call, by_id: bool, refused: Refused
) -> Answer:
    produce = ProduceInProgress(broker, request, call, by_id, refused)
    if request.transactional_id is None:
        return produce.append()
    from barnabas.broker.transactions.produce import append_verified

    return append_verified(broker, request, call, by_id, produce)


class ProduceInProgress:
    """One request: its batches are appended in order, and each result is recorded."""

    __slots__ = (
        "_broker", "_by_id", "_call", "_refusals", "_request", "_topics", "_waits", "_wall_ms",
        "guards", "refused",
    )  # fmt: skip

    def __init__(
        self,
        broker: "Broker",
        request: ProduceRequest,
        call: Call,
        by_id: bool,
        refused: Refused,
    ) -> None:
        self._broker = broker
        self._request = request
        self._call = call
        self._by_id = by_id
        self.refused = refused
        # Of a request with a transactional id, by the same indexes; else None.
        self.guards: Mapping[tuple[int, int], VerificationGuard] | None = None
        self._wall_ms = broker.clock.wall_ms()
        self._topics: list[TopicProduceResponse] = []
        self._refusals: list[Refusal] = []
        self._waits: list[UncommittedResult] = []

    def append(self) -> Appended:
        """The response, if one is wanted: now, or when the records are committed."""
        topics, by_id = self._broker.topics, self._by_id
        for data in self._request.topic_data:
            topic = topics.by_id(data.topic_id) if by_id else topics.get(data.name)
            answers: list[PartitionProduceResponse] = []
            for partition in data.partition_data:
                answers.append(self._append(topic, partition, answers))
            self._topics.append(
                TopicProduceResponse(
                    name=data.name, topic_id=data.topic_id, partition_responses=answers
                )
            )
        if self._refusals:
            self._report_refusals()
        if self._request.acks == 0:
            return None
        response = ProduceResponse(responses=self._topics)
        if not (self._refusals or self._waits):
            return response
        leaders = None
        if self._broker.cluster is not None and self._call.version >= LEADERS_SINCE:
            listener = self._call.connection.listener
            leaders = CurrentLeaders(topics, self._broker.cluster, listener, by_id)
        if self._refusals and leaders is not None:
            response = leaders.named_in(self._topics)
        if not self._waits:
            return response
        timeout_ms = min(max(self._request.timeout_ms, 0), WAIT_MS_MAX)
        return ProduceWait(self._broker.loop, response, self._waits, timeout_ms, leaders).deferred

    def _append(
        self,
        topic: "Topic | None",
        data: PartitionProduceData,
        answers: list[PartitionProduceResponse],
    ) -> PartitionProduceResponse:
        """`answers`: the results of the partitions before this one."""
        records = data.records
        request = self._request
        try:
            if self.refused:
                problem = self.refused.get((len(self._topics), len(answers)))
                if problem is not None:
                    raise problem
            if topic is None:
                raise InvalidRequest(
                    Code.UNKNOWN_TOPIC_ID if self._by_id else Code.UNKNOWN_TOPIC_OR_PARTITION
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
            if not records:
                raise InvalidRequest(
                    Code.INVALID_RECORD, "the request has no records for the partition"
                )
            partition = topic.partition(data.index)
            if partition.refused is not None:
                self._check_refused(partition, records)
            if self.guards is None:
                appended = partition.append(memoryview(records), request.acks, self._wall_ms)
            else:
                guard = self.guards.get((len(self._topics), len(answers)))
                appended = partition.append(
                    memoryview(records), request.acks, self._wall_ms, guard=guard
                )
        except KafkaError as error:
            error.__traceback__ = None  # it refers to the request's bytes, and this list
            if error.code in _RETRIED_IN_ORDER and topic is not None:
                self._remember_refused(topic, data)
            if error.code is Code.INVALID_TXN_STATE and self._lacks_id(records):
                error = InvalidRequest(
                    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    "the batch is part of a transaction, but the request has no transactional id",
                )
            self._refusals.append(Refusal(topic.name if topic else None, data.index, error))
            if isinstance(error, RecordsRefused):
                return refusal(data.index, error, log_start_offset=partition.log.start_offset)
            return refusal(data.index, error)
        counts = self._broker.counts
        counts.appends += 1
        counts.bytes_in += len(records)
        log = partition.log
        if log.high_watermark <= appended.last_offset:
            committed = partition.wait_for(appended.last_offset, request.acks)
            if committed is not None:
                self._waits.append(UncommittedResult(answers, len(answers), committed))
        return PartitionProduceResponse(
            index=data.index,
            error_code=0,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=log.start_offset,
        )

    def _remember_refused(self, topic: "Topic", data: PartitionProduceData) -> None:
        """Later batches of this producer may be in flight: they must wait for this one."""
        records = data.records
        if not records or len(records) < HEADER_SIZE:
            return
        if not 0 <= data.index < len(topic.partitions):
            return
        try:
            header = read_header(records)
        except KafkaError:  # not a batch: the producer has its answer already
            return
        if header.producer_id >= 0:
            partition = topic.partitions[data.index]
            if partition.refused is None:
                from barnabas.log.producers.refused import RefusedBatches

                partition.refused = RefusedBatches()
            partition.refused.add(
                header.producer_id, header.producer_epoch, header.base_sequence, self._wall_ms
            )

    def _check_refused(self, partition: "Partition", records: Buffer) -> None:
        assert partition.refused is not None
        if len(records) < HEADER_SIZE:
            return
        header = read_header(records)
        producer = header.producer_id, header.producer_epoch, header.base_sequence
        if not partition.refused.arrived(partition.log.producers, *producer, self._wall_ms):
            raise Retriable(
                Code.NOT_ENOUGH_REPLICAS,
                f"an earlier batch of producer {header.producer_id} was refused and must be"
                " sent again first",
            )
        if not partition.refused:
            partition.refused = None

    def _lacks_id(self, records: Buffer | None) -> bool:
        """Whether this is a batch of a transaction in a request without a transactional id."""
        if self._request.transactional_id is not None or not records:
            return False
        return bool(read_header(records).attributes & TRANSACTIONAL)

    def _report_refusals(self) -> None:
        name, index, error = self._refusals[0]
        # While leaders change, all producers get this error.
        if error.code is not Code.NOT_LEADER_OR_FOLLOWER:
            self._broker.refused(
                "append refused",
                self._call,
                error,
                partitions=len(self._refusals),
                topic=name,
                partition=index,
            )
        if self._request.acks == 0:  # closing the connection is the only way to report the error
            raise KafkaError(error.code, error.detail)
