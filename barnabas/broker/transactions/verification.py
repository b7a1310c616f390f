"""Asks the coordinator of a transaction whether partitions are in it, or adds them (KIP-890).

In: a producer's transactional id and identity, partitions that this broker leads. Out: a code for
each partition: NONE if it may be written to. At once, if this broker coordinates the transaction
and its log has nothing to wait for.
Always: if the coordinator is unreachable or the error is temporary, the code is
NOT_ENOUGH_REPLICAS, after which every producer tries again. While the producer's previous
transaction is being completed, the broker itself first retries to add partitions.
Not here: the guard to append with (log/transactions/verification.py), what the coordinator decides
(coordinators/transactions).
"""

import asyncio
from typing import NamedTuple

from barnabas.broker.context import TransactionsContext
from barnabas.broker.net.deferred_reply import DeferredReply, settled
from barnabas.broker.transactions.coordination import (
    CallOrigin,
    TransactionCoordination,
    transaction_coordination,
)
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.transaction import Partitions
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

TIMEOUT_MS = 10_000
VERSION = 5

_PASSES = frozenset(
    (
        Code.NETWORK_EXCEPTION,
        Code.REQUEST_TIMED_OUT,
        Code.BROKER_NOT_AVAILABLE,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.CONCURRENT_TRANSACTIONS,
    )
)

_HERE = CallOrigin(VERSION, "", "")
Codes = dict[tuple[str, int], Code]


class Question(NamedTuple):
    """Are these partitions in the producer's transaction? `add`: they join with this question, as
    in version 2 of the protocol."""

    transactional_id: str
    producer: Identity
    partitions: Partitions
    add: bool


def ask_now(broker: TransactionsContext, question: Question) -> Codes | None:
    """None if the answer takes time: call `ask`."""
    coordination = transaction_coordination(broker)
    if coordination.leader_of(question.transactional_id) != broker.id:
        return None
    id_, producer, partitions, add = question
    try:
        if not add:
            codes = coordination.verified_now(id_, producer, partitions)
            if codes is None:
                return None
            return {key: _code_for_producer(code) for key, code in codes.items()}
        reply = coordination.run(
            id_,
            lambda shard, caller, now: shard.join_partitions(
                id_, producer, partitions, caller, now
            ),
            _HERE,
        )
    except KafkaError as error:
        return _codes(question, _code_for_producer(error.code))
    if isinstance(reply, DeferredReply):
        # A question twice is harmless: what has joined stays in the transaction.
        return None
    assert isinstance(reply, AddPartitionsToTxnResponse)
    code = Code.of(reply.error_code)
    if code is Code.CONCURRENT_TRANSACTIONS:
        return None
    return _codes(question, _code_for_producer(code))


async def ask(broker: TransactionsContext, question: Question) -> Codes:
    loop, config = broker.loop, broker.config
    give_up = loop.time() + config.add_partitions_to_txn_retry_backoff_max_ms / 1000
    while True:
        try:
            codes = _read(question, await _asked(broker, question))
        except KafkaError as error:
            codes = _codes(question, error.code)
        if not question.add or Code.CONCURRENT_TRANSACTIONS not in codes.values():
            break
        pause = config.add_partitions_to_txn_retry_backoff_ms / 1000
        if loop.time() + pause > give_up:
            break
        await asyncio.sleep(pause)
    return {key: _code_for_producer(code) for key, code in codes.items()}


def _codes(question: Question, code: Code) -> Codes:
    return {
        (topic, index): code for topic, indexes in question.partitions.items() for index in indexes
    }


def _read(question: Question, answer: ProtocolMessage) -> Codes:
    codes = _codes(question, Code.NETWORK_EXCEPTION)
    assert isinstance(answer, AddPartitionsToTxnResponse)
    for result in answer.results_by_transaction:
        for topic in result.topic_results:
            for each in topic.results_by_partition:
                key = (topic.name, each.partition_index)
                if key in codes:
                    codes[key] = Code.of(each.partition_error_code)
    return codes


def _ask_here(
    coordination: TransactionCoordination, question: Question
) -> ProtocolMessage | DeferredReply[ProtocolMessage]:
    id_, producer, partitions, add = question
    return coordination.run(
        id_,
        lambda shard, caller, now: (
            shard.add_partitions(id_, producer, partitions, caller, now)
            if add
            else shard.verify_partitions(id_, producer, partitions, caller)
        ),
        _HERE,
    )


async def _asked(broker: TransactionsContext, question: Question) -> ProtocolMessage:
    coordination = transaction_coordination(broker)
    id_, producer, partitions, add = question
    leader = coordination.leader_of(id_)
    if leader == broker.id or broker.cluster is None:
        return await settled(_ask_here(coordination, question))
    asked = AddPartitionsToTxnTransaction(
        transactional_id=id_,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=not add,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=sorted(indexes))
            for topic, indexes in partitions.items()
        ],
    )
    return await broker.cluster.peers.call(
        BrokerId(leader),
        AddPartitionsToTxnRequest(transactions=[asked]),
        lane="verification",
        timeout_ms=TIMEOUT_MS,
        version=VERSION,
    )


def _code_for_producer(code: Code) -> Code:
    if code in _PASSES:
        return Code.NOT_ENOUGH_REPLICAS
    return Code.INVALID_PRODUCER_EPOCH if code is Code.PRODUCER_FENCED else code
