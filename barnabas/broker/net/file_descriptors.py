"""How the broker divides the file descriptors that its process may have.

In: the limit of open files, and how many files of logs are open. Out: how many segments stay open,
how many connections are accepted, how many slices of files the next reply may carry.
Always: the parts together stay below the limit, so no log gets EMFILE while the parts hold.
A reply keeps the files it sends from open until they are sent. So a client that does not read, or
one that reads from more partitions than segments stay open, would use up the descriptors.
Not here: what happens when none is left after all (broker/storage/log_directory.py).
"""

from collections.abc import Callable

SLICES_MAX = 1024  # of one reply, regardless of the number of descriptors
OWN_FILES = 24  # listeners, the keeper, checkpoints, files that libraries open
CROWDED_MS = 5_000  # for how long after a shortened reply descriptors are considered scarce


class FileDescriptorBudget:
    """`open_files`: how many files of logs are open now, held by a segment or by a reply."""

    def __init__(self, limit: int, open_files: Callable[[], int]) -> None:
        self.limit = limit
        self.segments_max = max(4, limit // 10)  # each may hold three: its log and two indexes
        self.replies_max = max(8, limit // 10)  # files that only replies hold
        self.connections_max = max(4, limit - 3 * self.segments_max - self.replies_max - OWN_FILES)
        self._open_files = open_files
        self._refused_ms = -CROWDED_MS
        self._turn = 0

    def slices_max(self, now_ms: int) -> int:
        """How many slices the next reply may carry; each may hold a file that nothing else
        holds."""
        left = self.segments_max + self.replies_max - self._open_files()
        if left <= 0:
            self._refused_ms = now_ms
            return 0
        return min(left, SLICES_MAX)

    def next_turn(self) -> int:
        """Rotates: where a reply that cannot carry all partitions begins."""
        self._turn += 1
        return self._turn

    def crowded(self, now_ms: int) -> bool:
        """Whether a reply had to leave out records recently."""
        return now_ms - self._refused_ms < CROWDED_MS
