"""Where readers of a log with delayed delivery end: at the first batch that is younger than the
delay.

In: a log, the time. Out: an offset, and when it will rise.
Always: a batch is visible when its time plus the delay has passed, and so are all batches before
it; the end never falls, also when the clock steps back. Between two due times nothing is read.
Not here: timers and waiting readers (broker/delivery_delay.py).
"""

from barnabas.log.log import Log
from barnabas.log.segments.time_lookup import first_batch_since


class VisibleEnd:
    """Of one log. `due`: when the end will rise; None: nothing is hidden."""

    __slots__ = ("delay_ms", "due", "offset")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.offset = 0
        self.due: int | None = None

    def advance(self, log: Log, now: int) -> int:
        """The end at this time."""
        if self.offset > log.end_offset:  # it was truncated
            self.offset, self.due = log.end_offset, None
        high = log.high_watermark
        if self.due is not None and now < self.due:
            return min(self.offset, high)
        start = max(self.offset, log.start_offset)
        if start >= high:
            self.due = None  # the hidden batches were deleted
            return high
        found = first_batch_since(log.segments, now - self.delay_ms + 1, start)
        if found is None or found.base_offset >= high:
            self.offset, self.due = high, None
        else:
            self.offset = max(self.offset, found.base_offset)
            self.due = found.max_timestamp + self.delay_ms
        return min(self.offset, high)
