"""InitProducerId: which producer id and epoch a producer goes on with, and whom that fences.

Always: two producers never have the same id and epoch; a producer that repeats a request whose
answer was lost gets the same answer, as long as the coordinator that gave it is there.
"""

from barnabas.coordinators.transactions.decision import (
    NO_IDS_AT_HAND,
    Decision,
    Identity,
    ProducerIds,
)
from barnabas.coordinators.transactions.ending import fence
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.coordinators.transactions.transaction import (
    NO_EPOCH,
    Transaction,
    created,
    initialised,
    is_exhausted,
)
from barnabas.model.errors import Code


def initialise(
    found: Transaction | None,
    producer: Identity,
    timeout_ms: int,
    ids: ProducerIds,
    version: int,
    wall_ms: int,
) -> Decision:
    """`version`: the cluster's `transaction.version`, which decides how others are fenced."""
    if found is None:
        id_ = ids.take()
        return (
            NO_IDS_AT_HAND
            if id_ is None
            else Decision(Code.NONE, created(id_, timeout_ms, wall_ms))
        )
    if producer.is_given and not _is_known(found, producer):
        return Decision(Code.PRODUCER_FENCED)
    if found.state.is_prepared:
        return Decision(Code.CONCURRENT_TRANSACTIONS)
    if found.state is TransactionState.ONGOING:
        # No producer has the fencing epoch: this one asks again, and gets the next epoch.
        ended = fence(found, ids, version, wall_ms)
        return ended if ended.code else Decision(Code.CONCURRENT_TRANSACTIONS, ended.then)
    if found.is_exhausted and producer.epoch in (NO_EPOCH, found.producer_epoch):
        id_ = ids.take()
        if id_ is None:
            return NO_IDS_AT_HAND
        last_epoch = found.producer_epoch if producer.is_given else NO_EPOCH
        then = initialised(found, id_, 0, last_epoch, timeout_ms, wall_ms)
        return Decision(Code.NONE, then)
    if not producer.is_given:
        epoch, last_epoch = found.producer_epoch + 1, NO_EPOCH
    elif producer.epoch == found.producer_epoch:
        epoch, last_epoch = found.producer_epoch + 1, found.producer_epoch
    elif producer.epoch == found.last_epoch:  # a repeated request, and no other producer since
        epoch, last_epoch = found.producer_epoch, found.last_epoch
    else:
        return Decision(Code.PRODUCER_FENCED)
    id_ = found.producer_id
    return Decision(Code.NONE, initialised(found, id_, epoch, last_epoch, timeout_ms, wall_ms))


def _is_known(found: Transaction, producer: Identity) -> bool:
    """The epoch is checked later. After its epochs ran out, a producer may not know its new id."""
    return producer.producer_id == found.producer_id or (
        producer.producer_id == found.previous_producer_id and is_exhausted(producer.epoch)
    )
