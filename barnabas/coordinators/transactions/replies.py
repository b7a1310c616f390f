"""Answers of the transaction coordinator, in the form of each API and version."""

from collections.abc import Callable

from barnabas.coordinators.transactions.group_commit import (
    NO_BATCH,
    CommittedBatch,
    GroupDecision,
)
from barnabas.coordinators.transactions.transaction import NO_EPOCH, NO_ID, Partitions
from barnabas.model.errors import Code
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from barnabas.wire.messages.commit_transaction_group import CommitTransactionGroupResponse
from barnabas.wire.messages.describe_transaction_group import DescribeTransactionGroupResponse
from barnabas.wire.messages.end_txn import EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse

BATCHED_SINCE = 4  # of AddPartitionsToTxn: from brokers, several transactions at once
FENCED_SINCE = 2  # of AddPartitionsToTxn, AddOffsetsToTxn, EndTxn: they know PRODUCER_FENCED
FENCED_SINCE_INIT = 4

# What the log says, and what a producer makes of it: as Kafka translates it.
_TO_PRODUCERS = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.MESSAGE_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
    Code.RECORD_LIST_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
}


def code_for_version(code: Code, version: int, fenced_since: int) -> Code:
    """Old clients know INVALID_PRODUCER_EPOCH for what is PRODUCER_FENCED now."""
    if code is Code.PRODUCER_FENCED and version < fenced_since:
        return Code.INVALID_PRODUCER_EPOCH
    return code


def initialised(
    code: Code, version: int, producer_id: int = NO_ID, producer_epoch: int = NO_EPOCH
) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code_for_version(code, version, FENCED_SINCE_INIT),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def ended(
    code: Code, version: int, producer_id: int = NO_ID, producer_epoch: int = NO_EPOCH
) -> EndTxnResponse:
    return EndTxnResponse(
        error_code=code_for_version(code, version, FENCED_SINCE),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def offsets_added(code: Code, version: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code_for_version(code, version, FENCED_SINCE))


def group_ended(
    decision: GroupDecision, last: CommittedBatch | None
) -> CommitTransactionGroupResponse:
    return CommitTransactionGroupResponse(
        error_code=decision.code,
        error_message=decision.detail or None,
        already_committed=decision.already,
        last_batch=NO_BATCH if last is None else last.number,
        last_note="" if last is None else last.note,
    )


def group_described(
    last: CommittedBatch | None, partitions: int
) -> DescribeTransactionGroupResponse:
    if last is None:
        return DescribeTransactionGroupResponse(error_code=Code.NONE, partitions=partitions)
    return DescribeTransactionGroupResponse(
        error_code=Code.NONE,
        partitions=partitions,
        batch=last.number,
        identity=last.identity,
        note=last.note,
    )


def added(
    transactional_id: str,
    partitions: Partitions,
    code: Code | Callable[[str, int], Code],
    version: int,
) -> AddPartitionsToTxnResponse:
    """One transaction of the request; `code`: of all its partitions, or of each."""

    if isinstance(code, Code):
        same = code_for_version(code, version, FENCED_SINCE)
        codes = {topic: dict.fromkeys(sorted(all_), same) for topic, all_ in partitions.items()}
    else:
        codes = {
            topic: {
                index: code_for_version(code(topic, index), version, FENCED_SINCE)
                for index in sorted(indexes)
            }
            for topic, indexes in partitions.items()
        }
    topics = [
        AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=each)
                for index, each in by_index.items()
            ],
        )
        for topic, by_index in codes.items()
    ]
    if version < BATCHED_SINCE:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    result = AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=topics)
    return AddPartitionsToTxnResponse(results_by_transaction=[result])


def joined(code: Code) -> AddPartitionsToTxnResponse:
    """To a leader on the same broker: the code of all its partitions."""
    return AddPartitionsToTxnResponse(error_code=code)


def not_written(response: ProtocolMessage, code: Code) -> ProtocolMessage:
    """The answer instead of `response`, when the log did not take the record behind it."""
    code_of = _TO_PRODUCERS.get(code, code)
    match response:
        case InitProducerIdResponse():
            return InitProducerIdResponse(
                error_code=code_of, producer_id=NO_ID, producer_epoch=NO_EPOCH
            )
        case EndTxnResponse():
            return EndTxnResponse(error_code=code_of)
        case CommitTransactionGroupResponse():
            if code in (Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE):
                # One record batch has the whole decision: with this many transactions never.
                return CommitTransactionGroupResponse(
                    error_code=Code.MESSAGE_TOO_LARGE,
                    error_message="the decision is larger than max.message.bytes of"
                    " __transaction_state",
                )
            return CommitTransactionGroupResponse(error_code=code_of)
        case DescribeTransactionGroupResponse():
            return DescribeTransactionGroupResponse(error_code=code_of)
        case AddOffsetsToTxnResponse():
            return AddOffsetsToTxnResponse(error_code=code_of)
        case AddPartitionsToTxnResponse():
            named = response.results_by_transaction or response.results_by_topic_v3_and_below
            return AddPartitionsToTxnResponse(
                error_code=Code.NONE if named else code_of,  # `joined` names no partition
                results_by_transaction=[
                    AddPartitionsToTxnResult(
                        transactional_id=result.transactional_id,
                        topic_results=_with_code(result.topic_results, code_of),
                    )
                    for result in response.results_by_transaction
                ],
                results_by_topic_v3_and_below=_with_code(
                    response.results_by_topic_v3_and_below, code_of
                ),
            )
        case _:
            raise AssertionError(f"{type(response).__name__} has nothing written behind it")


def _with_code(
    topics: list[AddPartitionsToTxnTopicResult], code: Code
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=each.partition_index, partition_error_code=code
                )
                for each in topic.results_by_partition
            ],
        )
        for topic in topics
    ]
