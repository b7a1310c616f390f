"""Requests about transactions and producer ids."""

from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization.answers import Handle, after, changed
from barnabas.broker.authorization.requester import Requester
from barnabas.broker.authorization.whole_requests import with_error_code
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.security.acl.rules import AclOperation
from barnabas.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    commit_transaction_group,
    describe_transaction_group,
    describe_transaction_history,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

DENIED = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOPIC_DENIED = Code.TOPIC_AUTHORIZATION_FAILED
NO_PRODUCER_ID = -1
FROM_BROKERS_SINCE = 4


def init_producer_id_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """Without a transactional id: IDEMPOTENT_WRITE on the cluster, or WRITE on some topic."""
    code = Code.NONE
    if request.transactional_id is not None:
        if not caller.transactional_id(AclOperation.WRITE, request.transactional_id):
            code = DENIED
    elif (
        not caller.cluster(AclOperation.IDEMPOTENT_WRITE, quiet=True)
        and not caller.may_write_somewhere()
    ):
        caller.cluster(AclOperation.IDEMPOTENT_WRITE)  # recorded
        code = Code.CLUSTER_AUTHORIZATION_FAILED
    if not code:
        return handle(broker, request, call)
    return init_producer_id.InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=-1
    )


def end_txn_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    if caller.transactional_id(AclOperation.WRITE, request.transactional_id):
        return handle(broker, request, call)
    return end_txn.EndTxnResponse(error_code=DENIED)


def add_offsets_to_txn_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    if not caller.transactional_id(AclOperation.WRITE, request.transactional_id):
        return add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=DENIED)
    if not caller.group(AclOperation.READ, request.group_id):
        code = Code.GROUP_AUTHORIZATION_FAILED
        return add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=code)
    return handle(broker, request, call)


def add_partitions_to_txn_check(
    handle: Handle,
    broker: "Broker",
    request: add_partitions_to_txn.AddPartitionsToTxnRequest,
    call: Call,
    caller: Requester,
) -> Any:
    """Up to version 3 from clients, later from brokers. One denied topic refuses them all."""
    if call.version >= FROM_BROKERS_SINCE:
        if caller.cluster(AclOperation.CLUSTER_ACTION):
            return handle(broker, request, call)
        return with_error_code(request, call.version)
    topics = request.v3_and_below_topics
    if not caller.transactional_id(AclOperation.WRITE, request.v3_and_below_transactional_id):
        return _added(request, dict.fromkeys((each.name for each in topics), DENIED))
    write = AclOperation.WRITE
    codes = {
        each.name: Code.NONE
        if not _is_internal(broker, each.name) and caller.topic(write, each.name)
        else TOPIC_DENIED
        for each in topics
    }
    if not any(codes.values()):
        return handle(broker, request, call)
    return _added(
        request, {name: code or Code.OPERATION_NOT_ATTEMPTED for name, code in codes.items()}
    )


def _is_internal(broker: "Broker", name: str) -> bool:
    topic = broker.topics.get(name)
    return topic is not None and topic.internal


def _added(
    request: add_partitions_to_txn.AddPartitionsToTxnRequest, codes: dict[str, Code]
) -> add_partitions_to_txn.AddPartitionsToTxnResponse:
    return add_partitions_to_txn.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=codes[topic.name]
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def describe_transactions_check(
    handle: Handle,
    broker: "Broker",
    request: describe_transactions.DescribeTransactionsRequest,
    call: Call,
    caller: Requester,
) -> Any:
    """Topics that may not be described are left out."""
    allowed, refusals = [], []
    for id_ in request.transactional_ids:
        if caller.transactional_id(AclOperation.DESCRIBE, id_):
            allowed.append(id_)
        else:
            refusals.append(
                describe_transactions.DescribedTransaction(
                    error_code=DENIED,
                    transactional_id=id_,
                    transaction_state="",
                    transaction_timeout_ms=0,
                    transaction_start_time_ms=0,
                    producer_id=0,
                    producer_epoch=0,
                    topics=[],
                )
            )

    def finish(response: Any) -> Any:
        describe = AclOperation.DESCRIBE
        states = [
            changed(
                state,
                topics=[
                    each for each in state.topics if caller.topic(describe, each.topic, quiet=True)
                ],
            )
            for state in response.transaction_states
        ]
        return changed(response, transaction_states=states + refusals)

    return after(handle(broker, changed(request, transactional_ids=allowed), call), finish)


def list_transactions_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    def finish(response: list_transactions.ListTransactionsResponse) -> Any:
        states = [
            each
            for each in response.transaction_states
            if caller.transactional_id(AclOperation.DESCRIBE, each.transactional_id, quiet=True)
        ]
        return changed(response, transaction_states=states)

    return after(handle(broker, request, call), finish)


def describe_transaction_history_check(
    handle: Handle,
    broker: "Broker",
    request: describe_transaction_history.DescribeTransactionHistoryRequest,
    call: Call,
    caller: Requester,
) -> Any:
    """Our own API: transactional ids, and readers that wait in partitions."""
    describe = AclOperation.DESCRIBE
    ids = {id_: caller.transactional_id(describe, id_) for id_ in request.transactional_ids}
    topics = {each.name: caller.topic(describe, each.name) for each in request.topics}

    def finish(response: Any) -> Any:
        refused = [
            describe_transaction_history.TransactionHistory(
                error_code=DENIED, transactional_id=id_, aborts=[]
            )
            for id_ in request.transactional_ids
            if not ids[id_]
        ]
        waiting = [
            describe_transaction_history.WaitingReaders(
                topic=topic.name, partition=index, error_code=TOPIC_DENIED, readers=[]
            )
            for topic in request.topics
            if not topics[topic.name]
            for index in topic.partitions
        ]
        return changed(
            response,
            transactions=response.transactions + refused,
            partitions=response.partitions + waiting,
        )

    allowed = changed(
        request,
        transactional_ids=[id_ for id_ in request.transactional_ids if ids[id_]],
        topics=[each for each in request.topics if topics[each.name]],
    )
    return after(handle(broker, allowed, call), finish)


def commit_transaction_group_check(
    handle: Handle,
    broker: "Broker",
    request: commit_transaction_group.CommitTransactionGroupRequest,
    call: Call,
    caller: Requester,
) -> Any:
    """Our own API: the group, and every transactional id in it."""
    names = (request.group, *(each.transactional_id for each in request.transactions))
    if all(caller.transactional_id(AclOperation.WRITE, name) for name in names):
        return handle(broker, request, call)
    return commit_transaction_group.CommitTransactionGroupResponse(error_code=DENIED)


def describe_transaction_group_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    if caller.transactional_id(AclOperation.DESCRIBE, request.group):
        return handle(broker, request, call)
    return describe_transaction_group.DescribeTransactionGroupResponse(error_code=DENIED)
