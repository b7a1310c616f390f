"""Requests to transaction coordinators, one at a time: for tasks and drivers that share a
transaction, which a producer of our client cannot do.

In: a cluster, and what to ask. Out: the answer, or an error in one line.
Always: a request without an answer is repeated until `default.api.timeout.ms` is over; each of them
may be repeated. An earlier transaction that is still being completed is waited for.
Not here: what is decided from the answers (group_committer.py, batch_transaction.py).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from barnabas.client.blocking.net import run
from barnabas.client.cluster import GROUP, TRANSACTION, ClusterClient
from barnabas.client.errors import check, error_of
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.producer.transaction_requests import (
    Producing,
    add_partitions,
    codes_of_offsets,
    codes_of_partitions,
    commit_offsets,
)
from barnabas.model.errors import Code, InvalidRequest, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from barnabas.wire.messages.commit_transaction_group import (
    CommitTransactionGroupRequest,
    CommitTransactionGroupResponse,
    GroupedTransaction,
)
from barnabas.wire.messages.describe_transaction_group import (
    DescribeTransactionGroupRequest,
    DescribeTransactionGroupResponse,
)
from barnabas.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitResponse

_APART = "transaction"
_SOON_MS = 5  # until a transaction that is still being completed is asked about again
_SOON_MS_MAX = 100
# The last versions of the older protocol: the epoch of a producer stays for its whole batch.
_ADD_PARTITIONS_MAX, _ADD_OFFSETS_MAX, _OFFSETS_MAX, _END_MAX = 3, 3, 4, 4

M = TypeVar("M", bound=ProtocolMessage)


class SinkTransaction(NamedTuple):
    """What a task has written into, and not ended."""

    transactional_id: str
    producer_id: int
    epoch: int


class GroupState(NamedTuple):
    """The last batch of a group, -1 if there is none; how many partitions its coordinators have."""

    partitions: int
    batch: int
    identity: str


def _ask(
    cluster: ClusterClient,
    key: str,
    request: ProtocolMessage,
    answer: type[M],
    code_of: Callable[[M], int],
    *,
    kind: int = TRANSACTION,
    version_max: int | None = None,
    timeout_ms: int | None = None,
) -> M:
    """`code_of`: the code that decides whether to ask again; others are the caller's."""

    async def attempt() -> M:
        wait_ms = _SOON_MS
        while True:
            connection = await cluster.coordinator(key, kind=kind, apart=_APART)
            response = await connection.call(
                request, answer, timeout_ms=cluster.timeout_ms, version_max=version_max
            )
            code = code_of(response)
            if code != Code.CONCURRENT_TRANSACTIONS:
                break
            if wait_ms >= _SOON_MS_MAX:
                raise error_of(code, about=f"transactional id {key!r}")
            await cluster.net.sleep(wait_ms)
            wait_ms *= 2
        if code:
            problem = error_of(code, about=f"transactional id {key!r}")
            if isinstance(problem, Retriable):
                raise problem
        return response

    return run(cluster.retrying(attempt, timeout_ms=timeout_ms))


def _changed(
    cluster: ClusterClient,
    id_: str,
    request: ProtocolMessage,
    answer: type[AddOffsetsToTxnResponse] | type[EndTxnResponse],
    version_max: int,
) -> None:
    """A change of a transaction whose answer is one code."""
    said = _ask(
        cluster, id_, request, answer, lambda response: response.error_code, version_max=version_max
    )
    check(said.error_code, about=f"transactional id {id_!r}")


def initialised(cluster: ClusterClient, id_: str, timeout_ms: int) -> SinkTransaction:
    """A new epoch: an older producer with this id is fenced, and its transaction aborted."""
    said = _ask(
        cluster,
        id_,
        InitProducerIdRequest(transactional_id=id_, transaction_timeout_ms=timeout_ms),
        InitProducerIdResponse,
        lambda response: response.error_code,
    )
    if said.error_code == Code.INVALID_TRANSACTION_TIMEOUT:
        raise PipelineError(
            f"kafka.transaction.timeout.ms: the brokers do not allow {timeout_ms}: lower it, or"
            " raise their transaction.max.timeout.ms"
        )
    check(said.error_code, about=f"transactional id {id_!r}")
    return SinkTransaction(id_, said.producer_id, said.producer_epoch)


def partitions_in(cluster: ClusterClient, transaction: SinkTransaction) -> set[TopicPartition]:
    """The partitions that tasks have added to the transaction. Brokers older than Apache Kafka 3.0
    do not tell.
    """
    try:
        said = _ask(
            cluster,
            transaction.transactional_id,
            DescribeTransactionsRequest(transactional_ids=[transaction.transactional_id]),
            DescribeTransactionsResponse,
            lambda response: next((each.error_code for each in response.transaction_states), 0),
        )
    except InvalidRequest as problem:
        if problem.code is Code.UNSUPPORTED_VERSION:
            return set()
        raise
    return {
        TopicPartition(topic.topic, number)
        for each in said.transaction_states
        if (each.producer_id, each.producer_epoch) == transaction[1:]
        for topic in each.topics
        for number in topic.partitions
    }


def partitions_added(
    cluster: ClusterClient, transaction: SinkTransaction, partitions: list[TopicPartition]
) -> None:
    """In the older protocol, before the first batch of a partition."""

    def worst(response: AddPartitionsToTxnResponse) -> int:
        codes = codes_of_partitions(response).values()
        hard = (code for code in codes if code not in (0, Code.OPERATION_NOT_ATTEMPTED))
        return next(hard, 0)

    said = _ask(
        cluster,
        transaction.transactional_id,
        add_partitions(Producing(*transaction), partitions),
        AddPartitionsToTxnResponse,
        worst,
        version_max=_ADD_PARTITIONS_MAX,
    )
    for at, code in codes_of_partitions(said).items():
        check(code, about=str(at))


def offset_committed(
    cluster: ClusterClient,
    transaction: SinkTransaction,
    group: str,
    at: TopicPartition,
    offset: int,
    metadata: str,
) -> None:
    """Takes effect if the transaction is committed."""
    id_, producer_id, epoch = transaction
    request = AddOffsetsToTxnRequest(
        transactional_id=id_, producer_id=producer_id, producer_epoch=epoch, group_id=group
    )
    _changed(cluster, id_, request, AddOffsetsToTxnResponse, _ADD_OFFSETS_MAX)
    offsets = commit_offsets(
        Producing(*transaction), GroupMetadata(group), {at: (offset, -1, metadata)}
    )
    answered = _ask(
        cluster,
        group,
        offsets,
        TxnOffsetCommitResponse,
        lambda response: next(iter(codes_of_offsets(response).values()), 0),
        kind=GROUP,
        version_max=_OFFSETS_MAX,
    )
    for where, code in codes_of_offsets(answered).items():
        check(code, about=f"group {group!r}, {where}")


def ended(cluster: ClusterClient, transaction: SinkTransaction, *, commit: bool) -> None:
    """In the older protocol."""
    id_, producer_id, epoch = transaction
    request = EndTxnRequest(
        transactional_id=id_, producer_id=producer_id, producer_epoch=epoch, committed=commit
    )
    _changed(cluster, id_, request, EndTxnResponse, _END_MAX)


def group_state(cluster: ClusterClient, group: str) -> GroupState:
    said = _ask(
        cluster,
        group,
        DescribeTransactionGroupRequest(group=group),
        DescribeTransactionGroupResponse,
        lambda response: response.error_code,
    )
    check(said.error_code, about=f"transactional id {group!r}")
    return GroupState(said.partitions, said.batch, said.identity)


def group_ended(
    cluster: ClusterClient,
    group: str,
    transactions: Mapping[str, SinkTransaction],
    *,
    commit: bool,
    batch: int = -1,
    identity: str = "",
    note: str = "",
) -> CommitTransactionGroupResponse:
    """The caller looks at the code."""
    return _ask(
        cluster,
        group,
        CommitTransactionGroupRequest(
            group=group,
            committed=commit,
            batch=batch,
            identity=identity,
            note=note,
            transactions=[
                GroupedTransaction(
                    transactional_id=id_, producer_id=each.producer_id, producer_epoch=each.epoch
                )
                for id_, each in transactions.items()
            ],
        ),
        CommitTransactionGroupResponse,
        lambda response: response.error_code,
    )


def has_groups(cluster: ClusterClient) -> bool:
    """Whether the brokers commit transactions as a group: those of Barnabas do."""

    async def attempt() -> bool:
        connection = await cluster.anyone()
        try:
            connection.version_of(CommitTransactionGroupRequest.api_key)
        except InvalidRequest:
            return False
        return True

    return run(cluster.retrying(attempt))
