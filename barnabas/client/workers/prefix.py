"""The finished prefix of a partition that is read in ranges, in any order.

In: ranges as they are finished. Out: the offset up to which nothing is missing.
"""


class FinishedPrefix:
    """Ranges never overlap; each is finished once."""

    def __init__(self, start: int) -> None:
        self.end = start
        self._ahead: dict[int, int] = {}  # start of a finished range: its end

    def finish(self, start: int, stop: int) -> bool:
        """Add a finished range. Returns whether the prefix grew."""
        self._ahead[start] = stop
        before = self.end
        while self.end in self._ahead:
            self.end = self._ahead.pop(self.end)
        return self.end > before
