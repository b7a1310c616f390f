"""AddOffsetsToTxn: the partition that keeps a group's offsets joins a transaction."""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import coordination
from barnabas.broker.net.dispatch import Call
from barnabas.broker.topic import OFFSETS_TOPIC
from barnabas.broker.transactions.coordination import Reply, origin_of, transaction_coordination
from barnabas.coordinators.transactions import replies
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest

if TYPE_CHECKING:
    from barnabas.broker.context import TransactionsContext


def handle(broker: "TransactionsContext", request: AddOffsetsToTxnRequest, call: Call) -> Reply:
    try:
        index = coordination(broker).partition_of(request.group_id)
    except KafkaError:
        # No FindCoordinator request for a group has created the topic yet.
        return replies.offsets_added(Code.COORDINATOR_NOT_AVAILABLE, call.version)
    partitions = {OFFSETS_TOPIC: frozenset((index,))}
    try:
        return transaction_coordination(broker).run(
            request.transactional_id,
            lambda shard, caller, now: shard.add_offsets(request, partitions, caller, now),
            origin_of(call),
        )
    except KafkaError as error:
        return replies.offsets_added(error.code, call.version)
