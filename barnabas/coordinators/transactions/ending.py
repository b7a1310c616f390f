"""EndTxn, fencing and timeouts: how a transaction is decided.

Always: once decided, a transaction is never decided otherwise; a repeated request is answered like
the first one, or told to wait.
"""

from barnabas.coordinators.transactions.adding import is_next
from barnabas.coordinators.transactions.decision import (
    NO_IDS_AT_HAND,
    Decision,
    Identity,
    ProducerIds,
)
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.coordinators.transactions.transaction import (
    BUMPS_EPOCH_SINCE,
    EPOCH_MAX,
    NO_ID,
    Transaction,
    fenced,
    prepared,
)
from barnabas.model.errors import Code

_COMMIT_OF = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}


def end(
    found: Transaction | None,
    producer: Identity,
    commit: bool,
    version: int,
    ids: ProducerIds,
    wall_ms: int,
) -> Decision:
    """`version`: the transaction version of the request."""
    if version >= BUMPS_EPOCH_SINCE:
        return _end_2(found, producer, commit, version, ids, wall_ms)
    return _end_1(found, producer, commit, wall_ms)


def fence(found: Transaction, ids: ProducerIds, version: int, wall_ms: int) -> Decision:
    """Abort an open transaction at an epoch that its producer does not have."""
    if version >= BUMPS_EPOCH_SINCE:
        return _prepare_2(found, False, version, ids, wall_ms)
    then = prepared(fenced(found), commit=False, version=0, next_producer_id=NO_ID, wall_ms=wall_ms)
    return Decision(Code.NONE, then)


def _end_1(found: Transaction | None, producer: Identity, commit: bool, wall_ms: int) -> Decision:
    """The epoch stays: requests of earlier transactions look like those of this one."""
    if found is None or found.producer_id != producer.producer_id:
        return Decision(Code.INVALID_PRODUCER_ID_MAPPING)
    if found.producer_epoch != producer.epoch:
        return Decision(Code.PRODUCER_FENCED)
    if found.state is TransactionState.ONGOING:
        then = prepared(found, commit=commit, version=0, next_producer_id=NO_ID, wall_ms=wall_ms)
        return Decision(Code.NONE, then)
    if _COMMIT_OF.get(found.state) is not commit:
        return Decision(Code.INVALID_TXN_STATE)
    return Decision(Code.CONCURRENT_TRANSACTIONS if found.state.is_prepared else Code.NONE)


def _end_2(
    found: Transaction | None,
    producer: Identity,
    commit: bool,
    version: int,
    ids: ProducerIds,
    wall_ms: int,
) -> Decision:
    """Each transaction has its own epoch: a repeated request has the epoch before the current."""
    if found is None:
        return Decision(Code.INVALID_PRODUCER_ID_MAPPING)
    if is_next(found, producer):
        return Decision(Code.CONCURRENT_TRANSACTIONS)
    over = _is_repeated_over_overflow(found, producer)
    if found.producer_id != producer.producer_id and not over:
        return Decision(Code.INVALID_PRODUCER_ID_MAPPING)
    current = found.producer_id == producer.producer_id and found.producer_epoch == producer.epoch
    # Only where the end before moved the epoch: else InitProducerId has, for another producer.
    repeated = over or (found.has_version_2 and found.producer_epoch == producer.epoch + 1)
    decided = _COMMIT_OF.get(found.state)
    match found.state:
        case TransactionState.ONGOING | TransactionState.EMPTY if not current:
            return Decision(Code.PRODUCER_FENCED)
        case TransactionState.ONGOING:
            return _prepare_2(found, commit, version, ids, wall_ms)
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            if not repeated:
                return Decision(Code.PRODUCER_FENCED)
            same = decided is commit
            return Decision(Code.CONCURRENT_TRANSACTIONS if same else Code.INVALID_TXN_STATE)
    if not current and not repeated:
        return Decision(Code.PRODUCER_FENCED)
    if repeated:
        return Decision(Code.NONE if decided is commit else Code.INVALID_TXN_STATE)
    if commit:
        return Decision(Code.INVALID_TXN_STATE)
    # The producer does not know whether anything of its transaction arrived: its epoch must move.
    return _prepare_2(found, False, version, ids, wall_ms)


def _is_repeated_over_overflow(found: Transaction, producer: Identity) -> bool:
    """The first request was answered with epoch 0 of another producer id."""
    return (
        producer.producer_id == found.previous_producer_id
        and producer.epoch == EPOCH_MAX - 1
        and found.producer_epoch == 0
    )


def _prepare_2(
    found: Transaction, commit: bool, version: int, ids: ProducerIds, wall_ms: int
) -> Decision:
    next_id = ids.take() if found.is_exhausted else NO_ID
    if next_id is None:
        return NO_IDS_AT_HAND
    then = prepared(
        found, commit=commit, version=version, next_producer_id=next_id, wall_ms=wall_ms
    )
    return Decision(Code.NONE, then)
