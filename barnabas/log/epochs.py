"""Which leader wrote which part of the log: the leader epoch cache.

In: epochs as they begin, truncations. Out: the end offset of an epoch.
Always: epochs and start offsets both rise.
Not here: deciding who leads (controller/), truncating by epoch (replication/).
"""

from bisect import bisect_right

NO_EPOCH = -1
NO_OFFSET = -1
FILE_NAME = "leader-epoch-checkpoint"


class LeaderEpochs:
    """(epoch, start offset) pairs; `version` changes whenever they do."""

    __slots__ = ("_epochs", "_starts", "latest", "saved_version", "version")

    def __init__(self, entries: list[tuple[int, int]]) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = NO_EPOCH
        self.version = 0
        for epoch, start in entries:
            self.begin(epoch, start)
        self.version = self.saved_version = 0

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def dirty(self) -> bool:
        return self.version != self.saved_version

    def begin(self, epoch: int, start_offset: int) -> None:
        """The epoch starts here; entries that contradict it go, as they hold no records."""
        if epoch < 0:
            return
        epochs, starts = self._epochs, self._starts
        while epochs and not (epochs[-1] < epoch and starts[-1] < start_offset):
            if epochs[-1] == epoch and starts[-1] <= start_offset:
                self.latest = epoch
                return
            epochs.pop()
            starts.pop()
            self.version += 1
        epochs.append(epoch)
        starts.append(start_offset)
        self._changed()

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest known epoch not above `epoch`, and where it ends; (-1, -1) if unknown."""
        if epoch == NO_EPOCH:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end
        above = bisect_right(self._epochs, epoch)
        if above == len(self._epochs):
            return NO_EPOCH, NO_OFFSET
        if above == 0:
            # Its records are gone: the log now starts with a later epoch.
            return epoch, self._starts[0]
        return self._epochs[above - 1], self._starts[above]

    def epoch_at(self, offset: int) -> int:
        """Under which epoch this offset was or will be written; -1 if unknown."""
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else NO_EPOCH

    def latest_written(self, start: int, end: int) -> int:
        """The epoch of the last record of a log that has this start and end.

        `latest` may be a later one: it has begun and has no record yet, or a power loss took its
        records, and perhaps records of earlier epochs with them.
        """
        if end > start:
            return self.epoch_at(end - 1)
        return self.latest if start else NO_EPOCH

    def truncate_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or after `end_offset`."""
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
            self._changed()

    def truncate_start(self, start_offset: int) -> None:
        """The log now starts here: the epoch in force there starts with it."""
        at = bisect_right(self._starts, start_offset) - 1
        if at < 0 or (at == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:at]
        del self._starts[:at]
        self._starts[0] = start_offset
        self._changed()

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
        self._changed()

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.version += 1
