"""The states of a transactional id, and which state may follow which.

A transactional id is always in one of the six states that the log knows. Kafka names two more that
are never in the log: Dead is the tombstone of an expired id here, and the fencing of a producer
goes from ONGOING to PREPARE_ABORT in one step.
"""

from enum import IntEnum
from typing import Self


class TransactionState(IntEnum):
    """The number is the one in the log, the title the one in DescribeTransactions."""

    title: str

    def __new__(cls, number: int, title: str) -> Self:
        member = int.__new__(cls, number)
        member._value_ = number
        member.title = title
        return member

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"

    @property
    def is_prepared(self) -> bool:
        """The decision is in the log; markers are on their way."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """No transaction is open: the id may start one, or expire."""
        return self in _IDLE


_IDLE = frozenset(
    (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
)

PREDECESSORS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset((TransactionState.ONGOING,)),
    # From an idle state: since version 2 a producer may abort what it only tried to begin.
    TransactionState.PREPARE_ABORT: _IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset((TransactionState.PREPARE_COMMIT,)),
    TransactionState.COMPLETE_ABORT: frozenset((TransactionState.PREPARE_ABORT,)),
}
"""By state: the states that may come before it."""

BY_TITLE = {state.title: state for state in TransactionState}
NAMES_KNOWN = frozenset((*BY_TITLE, "Dead", "PrepareEpochFence"))
"""Names that Kafka's tools may filter by; ids are never in the last two here."""
