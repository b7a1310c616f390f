"""Runs of offsets in one delivery state, in order and without gaps between the first and the last.

In: ranges to change. Out: the runs that cover exactly such a range.
Always: neighbours that differ in nothing are one run, once `merge` has passed over them. Work grows
with the number of runs, never with the number of offsets.
Not here: what a change means (share_partition.py).
"""

from bisect import bisect_right

from barnabas.coordinators.share.state_batches import DeliveryState

AVAILABLE = DeliveryState.AVAILABLE
ACQUIRED = DeliveryState.ACQUIRED
ACKNOWLEDGED = DeliveryState.ACKNOWLEDGED
ARCHIVED = DeliveryState.ARCHIVED
NO_TOKEN = 0


class Run:
    """Offsets `first` to `last`, both included.

    `token`: of the write that must be committed before `target` becomes its state.
    `deadline`: when the lock of its owner ends, while it is acquired.
    `not_before`: when it may be acquired again, while it is available.
    """

    __slots__ = (
        "acquired_ms", "attempts", "deadline", "first", "last", "not_before", "owner", "state",
        "target", "token",
    )  # fmt: skip

    def __init__(self, first: int, last: int, state: DeliveryState, attempts: int) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.attempts = attempts
        self.owner = ""
        self.acquired_ms = 0
        self.deadline = 0
        self.not_before = 0
        self.token = NO_TOKEN
        self.target = state

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        owner = f" {self.owner}" if self.owner else ""
        moving = f" to {self.target.name} by {self.token}" if self.token else ""
        return f"<{self.first}-{self.last} {self.state.name} {self.attempts}{owner}{moving}>"

    @property
    def finished(self) -> bool:
        """Acknowledged or archived, and that is committed."""
        return self.state >= ACKNOWLEDGED and not self.token

    def tail(self, first: int) -> "Run":
        """A run like this one that begins later."""
        run = Run(first, self.last, self.state, self.attempts)
        run.owner, run.acquired_ms, run.deadline = self.owner, self.acquired_ms, self.deadline
        run.not_before, run.token, run.target = self.not_before, self.token, self.target
        return run

    def joins(self, after: "Run") -> bool:
        """Whether the two differ in nothing."""
        if self.state is not after.state or self.token or after.token:
            return False
        if self.state >= ACKNOWLEDGED:
            return True
        return (
            self.attempts == after.attempts
            and self.owner == after.owner
            and self.deadline == after.deadline
            and self.not_before == after.not_before
        )


class Runs:
    """A sorted list; a window has a few thousand offsets at most."""

    __slots__ = ("_firsts", "all")

    def __init__(self) -> None:
        self.all: list[Run] = []
        self._firsts: list[int] = []

    def __len__(self) -> int:
        return len(self.all)

    def append(self, run: Run) -> None:
        """Directly after the last one."""
        assert not self.all or self.all[-1].last + 1 == run.first
        self.all.append(run)
        self._firsts.append(run.first)

    def find(self, offset: int) -> int:
        """The index of the run that has it; -1: it is before the first."""
        return bisect_right(self._firsts, offset) - 1

    def covering(self, first: int, last: int) -> list[Run]:
        """The runs that have offsets of the range, uncut."""
        start = max(self.find(first), 0)
        return [run for run in self.all[start : self.find(last) + 1] if run.last >= first]

    def exactly(self, first: int, last: int) -> list[Run]:
        """The runs of the range, cut at both ends."""
        self._cut(first)
        self._cut(last + 1)
        return self.covering(first, last)

    def merge(self, first: int, last: int) -> None:
        """Join equal neighbours, from the run before `first` to the one after `last`."""
        start = max(self.find(first) - 1, 0)
        stop = min(self.find(last) + 2, len(self.all))
        at = stop - 1
        while at > start:
            before, after = self.all[at - 1], self.all[at]
            if before.joins(after):
                before.last = after.last
                before.attempts = max(before.attempts, after.attempts)
                del self.all[at], self._firsts[at]
            at -= 1

    def drop_below(self, offset: int) -> list[Run]:
        """Remove all offsets below; returns what was removed."""
        self._cut(offset)
        stop = bisect_right(self._firsts, offset - 1)
        dropped = self.all[:stop]
        del self.all[:stop], self._firsts[:stop]
        return dropped

    def _cut(self, offset: int) -> None:
        """Let a run begin at this offset, if it is inside one."""
        at = self.find(offset)
        if at < 0:
            return
        run = self.all[at]
        if run.first < offset <= run.last:
            self.all.insert(at + 1, run.tail(offset))
            self._firsts.insert(at + 1, offset)
            run.last = offset - 1
