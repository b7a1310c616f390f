"""Bounds how many segments hold open files and mappings at once.

In: segments as they open files. Out: `cool()` on those unused the longest.
Always: only references are dropped. A file closes itself when the last reference is gone, so a
reader in the middle of a send keeps its file.
"""

from typing import Protocol


class Coolable(Protocol):
    """What can give its open files back and open them again."""

    used: bool

    def cool(self) -> None: ...


class OpenSegments:
    """Second chance in order of opening: `used` since the last look means stay."""

    __slots__ = ("_open", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = max(1, limit)
        self._open: dict[Coolable, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, segment: Coolable) -> None:
        self._open[segment] = None
        while len(self._open) > self.limit:
            candidate = next(iter(self._open))
            del self._open[candidate]
            if candidate.used or candidate is segment:
                candidate.used = False
                self._open[candidate] = None
            else:
                candidate.cool()

    def cool_half(self) -> None:
        """Descriptors are needed elsewhere: close the segments opened first."""
        for candidate in list(self._open)[: len(self._open) // 2 + 1]:
            del self._open[candidate]
            candidate.cool()

    def discard(self, segment: Coolable) -> None:
        self._open.pop(segment, None)
