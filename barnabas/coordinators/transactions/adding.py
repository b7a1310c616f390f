"""Partitions that join a transaction, and the question whether they have.

Always: a partition that was confirmed to its leader gets a marker at the end of the transaction.
"""

from barnabas.coordinators.transactions.decision import Decision, Identity
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.coordinators.transactions.transaction import (
    NO_ID,
    Partitions,
    Transaction,
    covers,
    joined,
)
from barnabas.model.errors import Code

PartitionCodes = dict[tuple[str, int], Code]
"""By topic and partition."""


def add(
    found: Transaction | None,
    producer: Identity,
    partitions: Partitions,
    version: int,
    wall_ms: int,
) -> Decision:
    code = check_producer(found, producer)
    if found is None or code:
        return Decision(code)
    if found.state is TransactionState.ONGOING and covers(found.partitions, partitions):
        return Decision(Code.NONE)
    return Decision(Code.NONE, joined(found, partitions, version, wall_ms))


def verified(
    id_: str, found: Transaction | None, producer: Identity, partitions: Partitions
) -> PartitionCodes:
    """Are they in the producer's transaction?"""
    code = check_producer(found, producer) if id_ else Code.INVALID_REQUEST
    known: Partitions = {} if code or found is None else found.partitions
    otherwise = code or Code.TRANSACTION_ABORTABLE
    return {
        (topic, index): Code.NONE if index in known.get(topic, ()) else otherwise
        for topic, indexes in partitions.items()
        for index in indexes
    }


def check_producer(found: Transaction | None, producer: Identity) -> Code:
    """May this producer write with the transactional id now?"""
    if found is not None and is_next(found, producer):
        return Code.CONCURRENT_TRANSACTIONS
    if found is None or found.producer_id != producer.producer_id:
        return Code.INVALID_PRODUCER_ID_MAPPING
    if found.producer_epoch != producer.epoch:
        return Code.PRODUCER_FENCED
    if found.state.is_prepared:
        return Code.CONCURRENT_TRANSACTIONS
    return Code.NONE


def is_next(found: Transaction, producer: Identity) -> bool:
    """In version 2 a producer learns its next identity with the answer to EndTxn, before the
    transaction is complete. The producer is valid then, and must retry."""
    if not (found.state.is_prepared and found.has_version_2):
        return False
    if found.next_producer_id != NO_ID:
        return producer == (found.next_producer_id, 0)
    return producer == (found.producer_id, found.producer_epoch)
