"""EndTxn: commit or abort. Answered when the decision is committed, before the markers are."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.transactions.coordination import Reply, origin_of, transaction_coordination
from barnabas.coordinators.transactions import replies
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.end_txn import EndTxnRequest

if TYPE_CHECKING:
    from barnabas.broker.context import TransactionsContext


def handle(broker: "TransactionsContext", request: EndTxnRequest, call: Call) -> Reply:
    try:
        return transaction_coordination(broker).run(
            request.transactional_id,
            lambda shard, caller, now: shard.end_txn(request, caller, now),
            origin_of(call),
        )
    except KafkaError as error:
        return replies.ended(error.code, call.version)
