"""ListTransactions: the transactional ids that this broker coordinates."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.transactions.coordination import transaction_coordination
from barnabas.coordinators.groups.consumer.patterns import Pattern
from barnabas.coordinators.transactions.describing import listed, unknown_states
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import TransactionsContext


def handle(
    broker: "TransactionsContext", request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse:
    text = request.transactional_id_pattern
    wall_ms = broker.clock.wall_ms()
    try:
        matches = Pattern(text).matches if text else None
        found = [
            each
            for shard in transaction_coordination(broker).shards()
            for each in listed(shard.table, request, matches, wall_ms)
        ]
    except KafkaError as error:
        return ListTransactionsResponse(
            error_code=error.code, unknown_state_filters=[], transaction_states=[]
        )
    return ListTransactionsResponse(
        error_code=Code.NONE,
        unknown_state_filters=unknown_states(request),
        transaction_states=found,
    )
