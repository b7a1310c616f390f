"""AddPartitionsToTxn: partitions join a transaction, or a leader asks whether they have.

Always: all partitions of a transaction join, or none. Versions from 4 on come from brokers and name
several transactions, each of which succeeds or fails on its own.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from barnabas.broker.net.deferred_reply import settled
from barnabas.broker.net.dispatch import Call
from barnabas.broker.transactions.coordination import Reply, origin_of, transaction_coordination
from barnabas.coordinators.transactions import replies
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.transaction import Partitions
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from barnabas.broker.context import TransactionsContext


def handle(
    broker: "TransactionsContext", request: AddPartitionsToTxnRequest, call: Call
) -> Reply | Coroutine[Any, Any, AddPartitionsToTxnResponse]:
    if call.version < replies.BATCHED_SINCE:
        one = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return _begin(broker, one, call)
    return _results([_begin(broker, each, call) for each in request.transactions])


async def _results(begun: list[Reply]) -> AddPartitionsToTxnResponse:
    results: list[AddPartitionsToTxnResult] = []
    for each in begun:
        reply = await settled(each)
        assert isinstance(reply, AddPartitionsToTxnResponse)
        results += reply.results_by_transaction
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _begin(
    broker: "TransactionsContext", asked: AddPartitionsToTxnTransaction, call: Call
) -> Reply:
    id_ = asked.transactional_id
    producer = Identity(asked.producer_id, asked.producer_epoch)
    partitions: dict[str, frozenset[int]] = {}
    for topic in asked.topics:
        known = partitions.get(topic.name, frozenset())
        partitions[topic.name] = known | frozenset(topic.partitions)
    unknown = _unknown(broker, partitions)
    if unknown:
        return replies.added(
            id_,
            partitions,
            lambda topic, index: (
                Code.UNKNOWN_TOPIC_OR_PARTITION
                if index in unknown.get(topic, ())
                else Code.OPERATION_NOT_ATTEMPTED
            ),
            call.version,
        )
    try:
        return transaction_coordination(broker).run(
            id_,
            lambda shard, caller, now: (
                shard.verify_partitions(id_, producer, partitions, caller)
                if asked.verify_only
                else shard.add_partitions(id_, producer, partitions, caller, now)
            ),
            origin_of(call),
        )
    except KafkaError as error:
        return replies.added(id_, partitions, error.code, call.version)


def _unknown(broker: "TransactionsContext", partitions: Partitions) -> Partitions:
    unknown: dict[str, frozenset[int]] = {}
    for name, indexes in partitions.items():
        topic = broker.topics.get(name)
        count = 0 if topic is None else len(topic.partitions)
        if missing := frozenset(index for index in indexes if not 0 <= index < count):
            unknown[name] = missing
    return unknown
