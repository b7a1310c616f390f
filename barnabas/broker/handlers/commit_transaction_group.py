"""CommitTransactionGroup: commit or abort the transactions of a group with one decision.

Answered when the decision is committed, before the markers are written. For our own client only.
"""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.topic import TRANSACTIONS_TOPIC
from barnabas.broker.transactions.coordination import Reply, origin_of, transaction_coordination
from barnabas.coordinators.groups.records import partition_of
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.group_commit import AskedGroup
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.messages.commit_transaction_group import (
    CommitTransactionGroupRequest,
    CommitTransactionGroupResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import TransactionsContext


def handle(
    broker: "TransactionsContext", request: CommitTransactionGroupRequest, call: Call
) -> Reply:
    transactions = transaction_coordination(broker)
    asked = AskedGroup(
        request.group,
        request.committed,
        request.batch,
        request.identity,
        request.note,
        {
            each.transactional_id: Identity(each.producer_id, each.producer_epoch)
            for each in request.transactions
        },
    )
    try:
        if len(asked.transactions) < len(request.transactions):
            raise InvalidRequest(Code.INVALID_REQUEST, "a transactional id is named twice")
        _check_together(asked, transactions.partitions)
        return transactions.run(
            asked.group,
            lambda shard, caller, now: shard.end_group(asked, caller, now),
            origin_of(call),
        )
    except KafkaError as error:
        return CommitTransactionGroupResponse(error_code=error.code, error_message=error.detail)


def _check_together(asked: AskedGroup, partitions: int) -> None:
    """A group is decided in one record batch, so all its ids are in one partition."""
    index = partition_of(asked.group, partitions)
    for id_ in asked.transactions:
        if partition_of(id_, partitions) != index:
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                f"transactional id {id_[:200]!r} is not in partition {index} of"
                f" {TRANSACTIONS_TOPIC}, where group {asked.group[:200]!r} is",
            )
