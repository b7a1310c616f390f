"""DeleteRecords: deletes the oldest records of partitions, here and on all replicas.

Always: the response waits until all replicas on registered brokers start at the requested offset,
but no longer than the client's timeout.
"""

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.broker.partition_errors import not_served
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.partition import Partition
    from barnabas.broker.replicas.leading import LeaderReplica

HIGH_WATERMARK = -1
INVALID_LOW_WATERMARK = -1
WAIT_MS_MAX = 600_000  # a longer wait is not needed, and a waiting request holds memory


class Result(NamedTuple):
    """The result for one partition: the lowest log start of any replica, or the error."""

    low_watermark: int = INVALID_LOW_WATERMARK
    problem: KafkaError | None = None


class PendingDeletion(NamedTuple):
    """A partition of which other replicas still start before the offset."""

    partition: "Partition"
    leading: "LeaderReplica"
    offset: int

    def result(self) -> Result | None:
        """None: not yet."""
        partition = self.partition
        if partition.leading is not self.leading:
            return Result(problem=not_served(partition))
        low_watermark = self.leading.start_everywhere
        return Result(low_watermark) if low_watermark >= self.offset else None


def handle(
    broker: "Broker", request: DeleteRecordsRequest, call: Call
) -> DeleteRecordsResponse | DeferredReply[DeleteRecordsResponse]:
    results: list[Result | PendingDeletion] = []
    for topic in request.topics:
        for asked in topic.partitions:
            try:
                results.append(_delete(broker, topic.name, asked.partition_index, asked.offset))
            except KafkaError as error:
                results.append(Result(problem=error))
    waiting = _DeleteRecordsInProgress(broker, request, call, results)
    return waiting.deferred if waiting.pending else waiting.response()


def _delete(broker: "Broker", name: str, index: int, offset: int) -> Result | PendingDeletion:
    topic = broker.topics.existing(name)
    partition = topic.partition(index)
    log = partition.log
    if topic.internal:
        raise InvalidRequest(
            Code.INVALID_TOPIC_EXCEPTION, f"records of the internal topic {name} are not deleted"
        )
    policy = topic.config.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        raise InvalidRequest(
            Code.POLICY_VIOLATION,
            f"topic {name} has cleanup.policy=compact; DeleteRecords requires a cleanup.policy"
            " that contains delete",
        )
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    log.delete_before(offset)
    if partition.leading is None:
        return Result(log.start_offset)
    partition.leading.committed()  # followers get the new log start
    pending = PendingDeletion(partition, partition.leading, offset)
    return pending.result() or pending


class _DeleteRecordsInProgress:
    """A response that waits for followers."""

    def __init__(
        self,
        broker: "Broker",
        request: DeleteRecordsRequest,
        call: Call,
        results: list[Result | PendingDeletion],
    ) -> None:
        self._broker = broker
        self._request = request
        self._call = call
        self._results = results
        self.pending = {n: r for n, r in enumerate(results) if isinstance(r, PendingDeletion)}
        self.deferred: DeferredReply[DeleteRecordsResponse] = DeferredReply()
        if not self.pending:
            return
        self.deferred.cancelled = self._leave
        wait_s = min(max(request.timeout_ms, 0), WAIT_MS_MAX) / 1000
        self._timer = broker.loop.call_later(wait_s, self._late)
        self._places = list(self.pending.values())
        for each in self._places:
            each.partition.waiters[self] = None
            each.leading.wait_for_starts(self)

    # Called by partitions and their leaders

    def appended(self, size: int) -> None:
        """New records are of no interest here."""

    def leadership_lost(self) -> None:
        self._broker.loop.call_soon(self.started)  # the partition is in the middle of its change

    def started(self) -> None:
        """The log start of a replica has moved, or its broker is not registered any more."""
        for number, each in list(self.pending.items()):
            result = each.result()
            if result is not None:
                self._results[number] = result
                del self.pending[number]
        if not self.pending:
            self._finish()

    def _late(self) -> None:
        for number, each in self.pending.items():
            behind = each.leading.start_everywhere
            self._results[number] = Result(
                behind,
                Retriable(
                    Code.REQUEST_TIMED_OUT,
                    f"timed out waiting for the replicas of {each.partition.name}: one still starts"
                    f" at offset {behind}; it will delete the records later",
                ),
            )
        self._finish()

    def _finish(self) -> None:
        if not self.deferred.done:
            self._leave()
            self.deferred.set(self.response())

    def _leave(self) -> None:
        self._timer.cancel()
        for each in self._places:
            each.partition.waiters.pop(self, None)
            each.leading.start_waiters.pop(self, None)

    def response(self) -> DeleteRecordsResponse:
        results = iter(self._results)
        refused: list[KafkaError] = []
        topics = []
        for topic in self._request.topics:
            partitions = []
            for asked in topic.partitions:
                result = next(results)
                assert isinstance(result, Result)
                code = Code.NONE
                if result.problem is not None:
                    refused.append(result.problem)
                    code = result.problem.code
                partitions.append(
                    DeleteRecordsPartitionResult(
                        partition_index=asked.partition_index,
                        low_watermark=result.low_watermark,
                        error_code=code,
                    )
                )
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
        if refused:  # the response has no field for a message
            self._broker.refused(
                "delete of records refused", self._call, refused[0], partitions=len(refused)
            )
        return DeleteRecordsResponse(topics=topics)
