"""How long transactions are open, whatever happens to the wall clock.

In: a transaction with its start, which the log has as the time of a wall clock; the time.
Out: its age. Always: an age grows with the monotonic clock. A start in the future, by a clock that
was wrong and has been corrected, is the moment at which this coordinator sees it first.
"""

from collections.abc import Container

from barnabas.coordinators.ports import Now
from barnabas.coordinators.transactions.transaction import Transaction


class TransactionAges:
    """Of the open transactions of a shard."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[int, int]] = {}  # by id: the start in the log, and when it was

    def age_ms(self, id_: str, found: Transaction, now: Now) -> int:
        known = self._begun.get(id_)
        if known is not None and known[0] == found.started_ms:
            return now.ms - known[1]
        age_ms = max(0, now.wall_ms - found.started_ms)
        self._begun[id_] = (found.started_ms, now.ms - age_ms)
        return age_ms

    def forget_others(self, ids: Container[str]) -> None:
        self._begun = {id_: begun for id_, begun in self._begun.items() if id_ in ids}
