"""Asks the coordinator of a transaction whether partitions are in it, or adds them (KIP-890).

In: a producer's transactional id and identity, partitions that this broker leads. Out: a code for
each partition: NONE if it may be written to.
Always: whatever is wrong with the way to the coordinator, or passes by itself, is
NOT_ENOUGH_REPLICAS: the code after which every producer tries again.
Not here: the guard to append with (log/transactions/verification.py), what the coordinator decides
(coordinators/transactions).
"""

from barnabas.broker.context import TransactionsContext
from barnabas.broker.net.deferred_reply import settled
from barnabas.broker.transactions.coordination import CallOrigin, transaction_coordination
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.transaction import Partitions
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId
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

Codes = dict[tuple[str, int], Code]


async def ask_coordinator(
    broker: TransactionsContext,
    transactional_id: str,
    producer: Identity,
    partitions: Partitions,
    *,
    add: bool,
) -> Codes:
    """`add`: they join with this question, as in version 2 of the protocol."""
    try:
        response = await _asked(broker, transactional_id, producer, partitions, add=add)
        (result,) = response.results_by_transaction
        found = {
            (topic.name, each.partition_index): Code.of(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
    except (KafkaError, ValueError):
        found = {}
    return {
        (topic, index): _told(found.get((topic, index), Code.NETWORK_EXCEPTION))
        for topic, indexes in partitions.items()
        for index in indexes
    }


async def _asked(
    broker: TransactionsContext,
    id_: str,
    producer: Identity,
    partitions: Partitions,
    *,
    add: bool,
) -> AddPartitionsToTxnResponse:
    coordination = transaction_coordination(broker)
    leader = coordination.leader_of(id_)
    if leader == broker.id or broker.cluster is None:
        answer = await settled(
            coordination.run(
                id_,
                lambda shard, caller, now: (
                    shard.add_partitions(id_, producer, partitions, caller, now)
                    if add
                    else shard.verify_partitions(id_, producer, partitions, caller)
                ),
                CallOrigin(VERSION, "", ""),
            )
        )
    else:
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
        answer = await broker.cluster.peers.call(
            BrokerId(leader),
            AddPartitionsToTxnRequest(transactions=[asked]),
            timeout_ms=TIMEOUT_MS,
            version=VERSION,
        )
    assert isinstance(answer, AddPartitionsToTxnResponse)
    return answer


def _told(code: Code) -> Code:
    if code in _PASSES:
        return Code.NOT_ENOUGH_REPLICAS
    return Code.INVALID_PRODUCER_EPOCH if code is Code.PRODUCER_FENCED else code
