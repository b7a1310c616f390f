"""Counts how the transactions of a broker end, and remembers the last aborts with their causes.

In: every decision, when its record is written. Out: numbers for the metrics, aborts to log and to
tell people.
Always: what is remembered takes at most `bytes_max`, the oldest is forgotten first; a producer that
aborts its own transactions is not logged, however often it does.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.coordinators.transactions.causes import AbortedBy, TransactionCause
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.coordinators.transactions.transaction import Transaction

BYTES_MAX = 4 << 20
ABORT_BYTES = 500
UNLOGGED_MAX = 100
TOLD_MAX = 10  # of one transactional id

_LOGGED = frozenset((AbortedBy.TIMEOUT, AbortedBy.FENCED))


class RecordedAbort(NamedTuple):
    """A transaction that this broker decided to abort. `epoch`: the producer's, after that."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    cause: TransactionCause
    open_ms: int
    timeout_ms: int
    partitions: int

    @property
    def size(self) -> int:
        by = self.cause.by
        return ABORT_BYTES + len(self.transactional_id) + (0 if by is None else len(by.client_id))


class TransactionStatistics:
    """One for all shards of a broker."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.commits = 0
        self.aborts = dict.fromkeys(AbortedBy, 0)
        self.bytes = 0
        self.unlogged: deque[RecordedAbort] = deque()
        self.unlogged_left_out = 0
        self._bytes_max = bytes_max
        self._recent: deque[RecordedAbort] = deque()

    def changed(self, id_: str, found: Transaction, cause: TransactionCause | None) -> None:
        """A transactional id has a new state."""
        if found.state is TransactionState.PREPARE_COMMIT:
            self.commits += 1
        elif found.state is TransactionState.PREPARE_ABORT:
            cause = cause or TransactionCause(AbortedBy.UNKNOWN, found.updated_ms)
            open_ms = max(0, found.updated_ms - found.started_ms)
            partitions = sum(map(len, found.partitions.values()))
            self._aborted(
                RecordedAbort(
                    id_,
                    found.producer_id,
                    found.producer_epoch,
                    cause,
                    open_ms,
                    found.timeout_ms,
                    partitions,
                )
            )

    def _aborted(self, abort: RecordedAbort) -> None:
        self.aborts[abort.cause.kind] += 1
        if abort.cause.kind in _LOGGED:
            if len(self.unlogged) < UNLOGGED_MAX:
                self.unlogged.append(abort)
            else:
                self.unlogged_left_out += 1
        self._recent.append(abort)
        self.bytes += abort.size
        while self.bytes > self._bytes_max:
            self.bytes -= self._recent.popleft().size

    def last_aborts(self, ids: Iterable[str]) -> dict[str, list[RecordedAbort]]:
        """Of each of these transactional ids, the last one first: all found in one go."""
        found: dict[str, list[RecordedAbort]] = {id_: [] for id_ in ids}
        for abort in reversed(self._recent):
            aborts = found.get(abort.transactional_id)
            if aborts is not None and len(aborts) < TOLD_MAX:
                aborts.append(abort)
        return found

    def take_unlogged(self) -> tuple[list[RecordedAbort], int]:
        """Aborts to log, and how many more there were than are kept for that."""
        taken, left_out = list(self.unlogged), self.unlogged_left_out
        self.unlogged.clear()
        self.unlogged_left_out = 0
        return taken, left_out
