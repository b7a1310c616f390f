"""DescribeTransactions: the state of transactional ids that this broker coordinates."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.transactions.coordination import transaction_coordination
from barnabas.coordinators.transactions.describing import described, not_described
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import TransactionsContext


def handle(
    broker: "TransactionsContext", request: DescribeTransactionsRequest, call: Call
) -> DescribeTransactionsResponse:
    # Each once: a small request that repeats itself would make a very large answer.
    ids = dict.fromkeys(request.transactional_ids)
    return DescribeTransactionsResponse(transaction_states=[_describe(broker, id_) for id_ in ids])


def _describe(broker: "TransactionsContext", id_: str) -> DescribedTransaction:
    if not id_:
        return not_described(id_, Code.INVALID_REQUEST)
    try:
        shard = transaction_coordination(broker).shard_of(id_)
    except KafkaError as error:
        return not_described(id_, error.code)
    return described(shard.table, id_)
