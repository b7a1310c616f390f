"""TxnOffsetCommit: offsets that take effect with the commit of a transaction.

Always: the partition of __consumer_offsets is in the transaction before anything is written to it;
a topic or partition that does not exist fails alone.
"""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import coordination
from barnabas.broker.net.deferred_reply import settled
from barnabas.broker.net.dispatch import Call
from barnabas.broker.topic import OFFSETS_TOPIC
from barnabas.broker.transactions.verification import Question, ask, ask_now
from barnabas.coordinators.groups.replies import txn_commit_refused
from barnabas.coordinators.transactions.decision import Identity
from barnabas.log.transactions.append import require_guard
from barnabas.log.transactions.verification import VerificationGuard
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

ADDS_SINCE = 5  # the offsets join the transaction with this request
LOADING_SINCE = 2  # before, clients did not know COORDINATOR_LOAD_IN_PROGRESS


async def handle(
    broker: "Broker", request: TxnOffsetCommitRequest, call: Call
) -> TxnOffsetCommitResponse:
    known, unknown = _divided(broker, request.topics)
    response = txn_commit_refused(unknown, Code.UNKNOWN_TOPIC_OR_PARTITION)
    if not known:
        return response
    committed = await _commit(broker, _with_topics(request, known), call)
    return TxnOffsetCommitResponse(topics=[*committed.topics, *response.topics])


async def _commit(
    broker: "Broker", request: TxnOffsetCommitRequest, call: Call
) -> TxnOffsetCommitResponse:
    groups = coordination(broker)
    try:
        if not request.group_id:
            return txn_commit_refused(request.topics, Code.INVALID_GROUP_ID)
        index = groups.partition_of(request.group_id)
        groups.runtime.shard(index)  # or nobody need ask whether the transaction is open
        guard, code = await _verified(broker, request, index, add=call.version >= ADDS_SINCE)
        if code:
            return txn_commit_refused(request.topics, code)
        reply = await settled(
            groups.run_on(
                index,
                lambda shard, caller, now: shard.commit_in_transaction(request, guard, caller, now),
                call,
            )
        )
    except KafkaError as error:
        code = error.code
        if code is Code.COORDINATOR_LOAD_IN_PROGRESS and call.version < LOADING_SINCE:
            code = Code.COORDINATOR_NOT_AVAILABLE
        return txn_commit_refused(request.topics, code)
    assert isinstance(reply, TxnOffsetCommitResponse)
    return reply


async def _verified(
    broker: "Broker", request: TxnOffsetCommitRequest, index: int, *, add: bool
) -> tuple[VerificationGuard | None, Code]:
    """The guard to write with, or why nothing may be written."""
    log = broker.topics.existing(OFFSETS_TOPIC).partition(index).log
    producer = Identity(request.producer_id, request.producer_epoch)
    guard = require_guard(log, producer.producer_id, producer.epoch, -1, has_version_2=add)
    if guard is None:
        return None, Code.NONE
    if not (add or broker.config.transaction_partition_verification_enable):
        return guard, Code.NONE
    partitions = {OFFSETS_TOPIC: frozenset((index,))}
    question = Question(request.transactional_id, producer, partitions, add)
    codes = ask_now(broker, question) or await ask(broker, question)
    code = codes[OFFSETS_TOPIC, index]
    if code is Code.NOT_ENOUGH_REPLICAS:
        code = Code.COORDINATOR_NOT_AVAILABLE
    return guard, code


def _divided(
    broker: "Broker", topics: list[TxnOffsetCommitRequestTopic]
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitRequestTopic]]:
    known, unknown = [], []
    for topic in topics:
        found = broker.topics.get(topic.name)
        count = 0 if found is None else len(found.partitions)
        here = [each for each in topic.partitions if 0 <= each.partition_index < count]
        strange = [each for each in topic.partitions if not 0 <= each.partition_index < count]
        if here:
            known.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=here))
        if strange:
            unknown.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=strange))
    return known, unknown


def _with_topics(
    request: TxnOffsetCommitRequest, topics: list[TxnOffsetCommitRequestTopic]
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=request.transactional_id,
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=topics,
    )
