"""WriteTxnMarkers: a coordinator, or an administrator, ends transactions in partitions."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.transactions.marker_writing import write_markers
from barnabas.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import TransactionsContext


async def handle(
    broker: "TransactionsContext", request: WriteTxnMarkersRequest, call: Call
) -> WriteTxnMarkersResponse:
    return await write_markers(broker, request)
