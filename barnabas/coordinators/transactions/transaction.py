"""One transactional id, and the value that each step makes of it.

In: a transaction and what is to happen. Out: the transaction after that.
Always: a transaction is a value, never changed; each step comes from a state that the table allows.
Not here: whether a request may take the step (initialising.py, adding.py, ending.py).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from barnabas.coordinators.transactions.states import PREDECESSORS, TransactionState

NO_ID = -1
NO_EPOCH = -1
NO_TIME = -1
EPOCH_MAX = 0x7FFF
"""Kept for fencing: no producer is ever given this epoch."""
BUMPS_EPOCH_SINCE = 2
"""The transaction version (KIP-890) in which every transaction has an epoch of its own."""

Partitions = Mapping[str, frozenset[int]]
"""By topic."""


class Transaction(Struct, frozen=True):
    """What the log says of a transactional id. `last_epoch` is not in the log."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: Partitions
    updated_ms: int
    started_ms: int = NO_TIME
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    client_version: int = 0
    last_epoch: int = NO_EPOCH

    @property
    def is_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    @property
    def has_version_2(self) -> bool:
        return self.client_version >= BUMPS_EPOCH_SINCE


def is_exhausted(epoch: int) -> bool:
    """No producer may get the epoch after this one."""
    return epoch >= EPOCH_MAX - 1


def created(producer_id: int, timeout_ms: int, wall_ms: int) -> Transaction:
    return Transaction(
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions={},
        updated_ms=wall_ms,
        previous_producer_id=producer_id,
    )


def initialised(
    before: Transaction,
    producer_id: int,
    producer_epoch: int,
    last_epoch: int,
    timeout_ms: int,
    wall_ms: int,
) -> Transaction:
    return _step(
        before,
        TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions={},
        started_ms=NO_TIME,
        updated_ms=wall_ms,
    )


def joined(before: Transaction, added: Partitions, version: int, wall_ms: int) -> Transaction:
    started_ms = wall_ms if before.state.is_idle else before.started_ms
    return _step(
        before,
        TransactionState.ONGOING,
        partitions=merged(before.partitions, added),
        started_ms=started_ms,
        updated_ms=wall_ms,
        client_version=version,
    )


def prepared(
    before: Transaction, *, commit: bool, version: int, next_producer_id: int, wall_ms: int
) -> Transaction:
    """The decision. In version 2 it moves the epoch, so that late requests are of an old one."""
    epoch, last_epoch = before.producer_epoch, before.last_epoch
    if version >= BUMPS_EPOCH_SINCE:
        last_epoch = epoch
        epoch = min(epoch + 1, EPOCH_MAX)
    return _step(
        before,
        TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        last_epoch=last_epoch,
        next_producer_id=next_producer_id,
        started_ms=wall_ms if before.state.is_idle else before.started_ms,
        updated_ms=wall_ms,
        client_version=version,
    )


def fenced(before: Transaction) -> Transaction:
    """The same transaction at an epoch that no producer has."""
    return replace(
        before,
        producer_epoch=min(before.producer_epoch + 1, EPOCH_MAX),
        last_epoch=NO_EPOCH,
    )


def completed(before: Transaction, wall_ms: int) -> Transaction:
    """All markers are written. An exhausted epoch goes on as epoch 0 of the next producer id."""
    commit = before.state is TransactionState.PREPARE_COMMIT
    rotates = before.has_version_2 and before.next_producer_id != NO_ID
    return _step(
        before,
        TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT,
        producer_id=before.next_producer_id if rotates else before.producer_id,
        producer_epoch=0 if rotates else before.producer_epoch,
        next_producer_id=NO_ID,
        partitions={},
        updated_ms=wall_ms,
    )


def _step(before: Transaction, state: TransactionState, **changes: Any) -> Transaction:
    if before.state not in PREDECESSORS[state]:
        raise AssertionError(f"a transaction goes from {before.state.title} to {state.title}")
    return replace(before, state=state, previous_producer_id=before.producer_id, **changes)


def merged(partitions: Partitions, added: Partitions) -> Partitions:
    together = dict(partitions)
    for topic, indexes in added.items():
        together[topic] = together.get(topic, frozenset()) | indexes
    return together


def covers(partitions: Partitions, wanted: Partitions) -> bool:
    return all(indexes <= partitions.get(topic, frozenset()) for topic, indexes in wanted.items())


def without(partitions: Partitions, gone: Iterable[tuple[str, int]]) -> Partitions:
    left = dict(partitions)
    for topic, index in gone:
        rest = left.get(topic, frozenset()) - {index}
        if rest:
            left[topic] = rest
        else:
            left.pop(topic, None)
    return left
