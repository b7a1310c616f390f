"""Which transactions are open in one partition, and up to where it is stable for readers.

In: where transactions begin and end, the high watermark. Out: the last stable offset.
Always: below the last stable offset every record is committed, or aborted and known to be; nothing
below it can become undecided again while this replica leads. A transaction whose marker is not
below the high watermark still counts as open: the marker may get lost.
Not here: producers and their epochs (producers/state.py), aborted transactions (aborted_index.py).
"""

from collections.abc import Iterable


class OpenTransactions:
    """By producer: the first offset of its transaction."""

    __slots__ = ("_ended", "_open")

    def __init__(self, open_: Iterable[tuple[int, int]] = ()) -> None:
        """`open_`: producers with the first offsets of their transactions, as in a snapshot."""
        # Both in the order of first offsets, since batches are appended in the order of offsets.
        self._open = dict(sorted(open_, key=lambda each: each[1]))
        self._ended: dict[int, int] = {}  # by first offset: the marker's

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, producer_id: int, first_offset: int) -> None:
        self._open.setdefault(producer_id, first_offset)

    def end(self, producer_id: int, marker_offset: int) -> int | None:
        """The first offset of the transaction that the marker ends; None if it ends none."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is not None:
            self._ended[first_offset] = marker_offset
        return first_offset

    def move(self, producer_id: int, first_offset: int) -> None:
        """An open transaction begins elsewhere; -1: nowhere."""
        self._open[producer_id] = first_offset
        items = sorted(self._open.items(), key=lambda each: each[1])
        self._open = {producer: first for producer, first in items if first >= 0}

    def forget_decided(self, high_watermark: int) -> None:
        """Forget transactions whose marker is below the high watermark: they no longer limit the
        last stable offset."""
        if self._ended:
            self._ended = {
                first: marker for first, marker in self._ended.items() if marker >= high_watermark
            }

    @property
    def undecided(self) -> int:
        """How many that have ended may still hold readers back."""
        return len(self._ended)

    def first_open(self, but: int = -1) -> int | None:
        """The first offset that is undecided, of another producer than `but`."""
        for producer_id, first_offset in self._open.items():
            if producer_id != but:
                return first_offset
        return None

    def last_stable_offset(self, high_watermark: int, start_offset: int) -> int:
        """Readers of committed records stop here."""
        if not self._open and not self._ended:
            return high_watermark
        stable = high_watermark
        first_open = self.first_open()
        if first_open is not None:
            stable = min(stable, first_open)
        if self._ended:
            self.forget_decided(high_watermark)
            stable = min(stable, *self._ended) if self._ended else stable
        return max(stable, start_offset)
