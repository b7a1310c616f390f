"""DescribeTransactionHistory: who uses transactional ids, and why their transactions were aborted.

Also which readers wait in partitions that this broker leads. For our own client only.
Always: bounded in ids, in aborts of each, in partitions and in readers of each; a question about
partitions alone does not make a coordinator.
"""

from itertools import islice
from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.delayed_fetch import HeldBack
from barnabas.broker.transactions.coordination import (
    TransactionCoordination,
    transaction_coordination,
)
from barnabas.coordinators.transactions.causes import TransactionCause, cause_text
from barnabas.coordinators.transactions.statistics import RecordedAbort
from barnabas.coordinators.transactions.transaction import NO_EPOCH, NO_ID
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.describe_transaction_history import (
    DescribeTransactionHistoryRequest,
    DescribeTransactionHistoryResponse,
    TransactionHistory,
    TransactionHistoryAbort,
    WaitingReader,
    WaitingReaders,
)

if TYPE_CHECKING:
    from barnabas.broker.context import TransactionsContext

IDS_MAX = 100
PARTITIONS_MAX = 1_000
READERS_MAX = 100
UNKNOWN_MS = -1


def handle(
    broker: "TransactionsContext", request: DescribeTransactionHistoryRequest, call: Call
) -> DescribeTransactionHistoryResponse:
    described: list[TransactionHistory] = []
    since_ms = UNKNOWN_MS
    if request.transactional_ids:
        transactions = transaction_coordination(broker)
        since_ms = transactions.since_ms
        ids = list(dict.fromkeys(request.transactional_ids))
        aborts = transactions.statistics.last_aborts(ids[:IDS_MAX])
        described = [_history(transactions, id_, found) for id_, found in aborts.items()]
        described += [_refused(id_, Code.INVALID_REQUEST) for id_ in ids[IDS_MAX : IDS_MAX + 1]]
    asked = dict.fromkeys(
        (each.name, index) for each in request.topics for index in each.partitions
    )
    return DescribeTransactionHistoryResponse(
        now_ms=broker.clock.wall_ms(),
        since_ms=since_ms,
        transactions=described,
        partitions=[
            _readers(broker, topic, index) for topic, index in islice(asked, PARTITIONS_MAX)
        ],
    )


def _readers(broker: "TransactionsContext", topic: str, index: int) -> WaitingReaders:
    try:
        partition = broker.topics.existing(topic).partition(index)
    except KafkaError as error:
        return WaitingReaders(topic=topic, partition=index, error_code=error.code, readers=[])
    calls = (each.call for each in partition.waiters if isinstance(each, HeldBack))
    clients = dict.fromkeys((call.client_id, f"/{call.connection.host}") for call in calls)
    return WaitingReaders(
        topic=topic,
        partition=index,
        error_code=Code.NONE,
        readers=[
            WaitingReader(client_id=client_id, client_host=host)
            for client_id, host in islice(clients, READERS_MAX)
        ],
    )


def _history(
    transactions: TransactionCoordination, id_: str, found: list[RecordedAbort]
) -> TransactionHistory:
    try:
        table = transactions.shard_of(id_).table
    except KafkaError as error:
        return _refused(id_, error.code)
    if id_ not in table.transactions:
        return _refused(id_, Code.TRANSACTIONAL_ID_NOT_FOUND)
    owner = table.owners.get(id_)
    aborts = [_abort(each) for each in found]
    last = table.causes.get(id_)
    if last is not None and not aborts:  # an old one, or one of another coordinator
        aborts.append(_cause(last))
    return TransactionHistory(
        error_code=Code.NONE,
        transactional_id=id_,
        client_id="" if owner is None else owner.client_id,
        client_host="" if owner is None else owner.host,
        aborts=aborts,
    )


def _abort(abort: RecordedAbort) -> TransactionHistoryAbort:
    return _cause(
        abort.cause, abort.producer_id, abort.producer_epoch, abort.open_ms, abort.partitions
    )


def _cause(
    cause: TransactionCause,
    producer_id: int = NO_ID,
    producer_epoch: int = NO_EPOCH,
    open_ms: int = UNKNOWN_MS,
    partitions: int = -1,
) -> TransactionHistoryAbort:
    return TransactionHistoryAbort(
        at_ms=cause.at_ms,
        kind=cause.kind.name,
        text=cause_text(cause),
        client_id="" if cause.by is None else cause.by.client_id,
        client_host="" if cause.by is None else cause.by.host,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        open_ms=open_ms,
        partitions=partitions,
    )


def _refused(id_: str, code: Code) -> TransactionHistory:
    return TransactionHistory(error_code=code, transactional_id=id_, aborts=[])
