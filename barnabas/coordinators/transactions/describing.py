"""Answers about transactional ids: ListTransactions, DescribeTransactions."""

from collections.abc import Callable, Iterator

from barnabas.coordinators.transactions.states import BY_TITLE, NAMES_KNOWN
from barnabas.coordinators.transactions.table import TransactionTable
from barnabas.coordinators.transactions.transaction import NO_EPOCH, NO_ID, NO_TIME
from barnabas.model.errors import Code
from barnabas.wire.messages.describe_transactions import DescribedTransaction, TopicData
from barnabas.wire.messages.list_transactions import ListedTransaction, ListTransactionsRequest


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """Unknown states in the request: they are returned, and match no transaction."""
    return [name for name in request.state_filters if name not in NAMES_KNOWN]


def listed(
    table: TransactionTable,
    request: ListTransactionsRequest,
    matches: Callable[[str], object] | None,
    wall_ms: int,
) -> Iterator[ListedTransaction]:
    """`matches`: the pattern of the request, applied to the whole of a transactional id."""
    ids = frozenset(request.producer_id_filters)
    states = frozenset(BY_TITLE[name] for name in request.state_filters if name in BY_TITLE)
    duration_ms = request.duration_filter
    for id_, found in table.transactions.items():
        if ids and found.producer_id not in ids:
            continue
        if request.state_filters and found.state not in states:
            continue
        if duration_ms >= 0 and wall_ms - found.started_ms <= duration_ms:
            continue
        if matches is not None and not matches(id_):
            continue
        yield ListedTransaction(
            transactional_id=id_,
            producer_id=found.producer_id,
            transaction_state=found.state.title,
        )


def described(table: TransactionTable, id_: str) -> DescribedTransaction:
    """A decided transaction has the partitions that are still without marker."""
    found = table.transactions.get(id_)
    if found is None:
        return not_described(id_, Code.TRANSACTIONAL_ID_NOT_FOUND)
    partitions = table.unmarked.get(id_, found.partitions)
    return DescribedTransaction(
        error_code=Code.NONE,
        transactional_id=id_,
        transaction_state=found.state.title,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=sorted(indexes))
            for topic, indexes in partitions.items()
        ],
    )


def not_described(id_: str, code: Code) -> DescribedTransaction:
    return DescribedTransaction(
        error_code=code,
        transactional_id=id_,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=NO_TIME,
        producer_id=NO_ID,
        producer_epoch=NO_EPOCH,
        topics=[],
    )
