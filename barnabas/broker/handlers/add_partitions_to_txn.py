"""AddPartitionsToTxn: partitions join a transaction, or a leader asks whether they have.

Always: all partitions of a transaction join, or none. Versions from 4 on come from brokers and name
several transactions, each of which succeeds or fails on its own.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from barnabas.broker.net.deferred_reply import settled
from barnabas.broker.net.dispatch import Call
from barnabas.broker.topic import INTERNAL, OFFSETS_TOPIC
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
    refused = _refused(broker, partitions, call.version)
    if refused:
        return replies.added(
            id_,
            partitions,
            lambda topic, index: refused.get((topic, index), Code.OPERATION_NOT_ATTEMPTED),
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


def _refused(
    broker: "TransactionsContext", partitions: Partitions, version: int
) -> dict[tuple[str, int], Code]:
    """A marker in an internal topic would make its coordinator unable to load it. Only brokers
    add one: the partition in which a group commits its offsets."""
    refused: dict[tuple[str, int], Code] = {}
    for name, indexes in partitions.items():
        topic = broker.topics.get(name)
        count = 0 if topic is None else len(topic.partitions)
        if name in INTERNAL and (name != OFFSETS_TOPIC or version < replies.BATCHED_SINCE):
            refused |= dict.fromkeys(
                ((name, each) for each in indexes), Code.TOPIC_AUTHORIZATION_FAILED
            )
        elif min(indexes, default=0) < 0 or max(indexes, default=-1) >= count:
            unknown = ((name, each) for each in indexes if not 0 <= each < count)
            refused |= dict.fromkeys(unknown, Code.UNKNOWN_TOPIC_OR_PARTITION)
    return refused
