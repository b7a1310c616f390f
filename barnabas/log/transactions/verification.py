"""Guards: producers that wait for the coordinator's confirmation of a transactional batch.

A leader appends to a transaction that is not open here yet only if the coordinator has it. Between
the coordinator's answer and the append, a marker may come: the transaction is over then, and the
batch would open one that never ends. So each question has a guard of its own, which the marker
takes away.

In: transactional batches before their append, markers. Out: guards; whether a guard is still good.
Always: a guard is good for one transaction. While batches of a producer wait, none with a higher
sequence than the lowest of them is appended: its turn would never come.
Not here: asking the coordinator (broker/).
"""

GUARDS_MAX = 10_000
"""Of one partition. Beyond it the oldest go, and their producers are verified again."""


class VerificationGuard:
    """A pending verification, compared by identity."""

    __slots__ = ("epoch", "has_version_2", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, has_version_2: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.has_version_2 = has_version_2


class VerificationGuards:
    """Of one partition, by producer id. A new leader has none."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def require(
        self, producer_id: int, epoch: int, sequence: int, *, has_version_2: bool
    ) -> VerificationGuard:
        """The guard to append with, once the coordinator has said yes."""
        guard = self._guards.get(producer_id)
        if guard is None or epoch > guard.epoch:
            # A guard of an older epoch is not taken over: it may be of another version, and then
            # markers of this epoch would mean something else to it.
            if guard is None and len(self._guards) >= GUARDS_MAX:
                del self._guards[next(iter(self._guards))]
            guard = self._guards[producer_id] = VerificationGuard(epoch, sequence, has_version_2)
        elif epoch == guard.epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        return guard

    def current(self, producer_id: int) -> VerificationGuard | None:
        return self._guards.get(producer_id)

    def is_good(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        return guard is not None and self._guards.get(producer_id) is guard

    def appended(self, producer_id: int) -> None:
        """The transaction is open here now."""
        self._guards.pop(producer_id, None)

    def ended(self, producer_id: int, marker_epoch: int) -> None:
        """A marker was written. One of version 2 has the epoch of the next transaction, whose
        guard is to stay."""
        guard = self._guards.get(producer_id)
        if guard is not None and not (guard.has_version_2 and guard.epoch == marker_epoch):
            del self._guards[producer_id]
