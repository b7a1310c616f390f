"""DescribeTransactionGroup: the last batch of a group of transactions. For our own client only."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.transactions.coordination import Reply, origin_of, transaction_coordination
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.describe_transaction_group import (
    DescribeTransactionGroupRequest,
    DescribeTransactionGroupResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import TransactionsContext


def handle(
    broker: "TransactionsContext", request: DescribeTransactionGroupRequest, call: Call
) -> Reply:
    transactions = transaction_coordination(broker)
    try:
        return transactions.run(
            request.group,
            lambda shard, caller, now: shard.describe_group(
                request.group, transactions.partitions, caller
            ),
            origin_of(call),
        )
    except KafkaError as error:
        return DescribeTransactionGroupResponse(error_code=error.code)
