"""The states of a producer with a transactional id, and which may follow which.

    UNINITIALIZED --init--> INITIALIZING --InitProducerId--> READY <------------------------+
                                 ^                            |  ^                          |
                                 +---a new epoch is needed----+  |                          |
                                                              |  |                          |
                                                        begin |  | EndTxn (commit)          |
                                                              v  |                          |
                                  IN_TRANSACTION --commit--> COMMITTING                     |
                                      |      |                  |                           |
                                      |      +---an error---+   | an error                  |
                                      |                     v   v                           |
                                      +---abort--+      ABORTABLE_ERROR                     |
                                                 v          |                               |
                                               ABORTING <---+ abort                         |
                                                 |                                          |
                                                 +--EndTxn (abort), a new epoch-------------+

From every state but UNINITIALIZED an error that ends the producer leads to FATAL_ERROR.
"""

from enum import Enum


class State(Enum):
    """Of a producer with a transactional id."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a transaction that must be aborted"
    FATAL_ERROR = "ended by an error"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.UNINITIALIZED: frozenset({State.INITIALIZING}),
    State.INITIALIZING: frozenset({State.READY, State.FATAL_ERROR}),
    State.READY: frozenset({State.INITIALIZING, State.IN_TRANSACTION, State.FATAL_ERROR}),
    State.IN_TRANSACTION: frozenset(
        {State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR, State.FATAL_ERROR}
    ),
    State.COMMITTING: frozenset({State.READY, State.ABORTABLE_ERROR, State.FATAL_ERROR}),
    State.ABORTABLE_ERROR: frozenset({State.ABORTING, State.FATAL_ERROR}),
    State.ABORTING: frozenset({State.READY, State.FATAL_ERROR}),
    State.FATAL_ERROR: frozenset(),
}
REMEDIES = {
    State.UNINITIALIZED: "call init_transactions() first",
    State.INITIALIZING: "init_transactions() has no answer yet: call it again",
    State.READY: "no transaction is open: call begin_transaction() first",
    State.IN_TRANSACTION: "a transaction is open: commit or abort it first",
    State.COMMITTING: "the transaction is being committed: call commit_transaction() again, until"
    " it returns",
    State.ABORTING: "the transaction is being aborted: call abort_transaction() again, until it"
    " returns",
}
"""What to call in this state."""

SENDING = frozenset({State.IN_TRANSACTION, State.COMMITTING})
"""Batches of the transaction may leave."""
