"""The progress of a run: batches, rows, time and lag of each of its queries.

In: a Batch for each batch that a query finishes, and for each round of a mirror; signs of life.
Out: the sums, and the same Batch to every watcher: the terminal, the file of the run (roster.py),
Prometheus.
Not here: what is wrong with it (explain.py).
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class BatchProgress:
    """One batch of a query."""

    query: str
    number: int
    rows: int
    took_ms: int
    lag: int | None  # records that existed and were not read yet when the batch ended
    phases_ms: Mapping[str, int] = field(default_factory=dict)  # as explain.py names them

    @property
    def rows_per_s(self) -> float:
        return self.rows * 1000 / max(self.took_ms, 1)

    def __str__(self) -> str:
        behind = "" if self.lag is None else f", {self.lag} behind"
        return (
            f"{self.query}: batch {self.number}, {self.rows} rows, {self.rows_per_s:.0f} rows/s,"
            f" {self.took_ms} ms{behind}"
        )


LAGS_KEPT = 6


@dataclass
class Sums:
    """The sums of one query since the run began. `lags`: of its last batches."""

    last: BatchProgress
    batches: int = 0
    rows: int = 0
    lags: deque[int] = field(default_factory=lambda: deque(maxlen=LAGS_KEPT))


Watcher = Callable[[BatchProgress], None]


class Progress:
    """The progress of one run."""

    def __init__(self) -> None:
        self.queries: dict[str, Sums] = {}
        self.triggered_ms: dict[str, int] = {}  # when each query last ended a batch, or had none
        self.retrying: str | None = None  # why the run waits before it tries again
        self.failed: str | None = None  # why it has ended
        self._watchers: list[Watcher] = []
        self.on_alive: Callable[[], None] | None = None

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def alive(self) -> None:
        """The run goes on, with or without batches. Called often."""
        if self.on_alive is not None:
            self.on_alive()

    def triggered(self, query: str, now_ms: int) -> None:
        """The query has ended a batch, or has looked for records and found none."""
        self.triggered_ms[query] = now_ms

    def attempt_began(self) -> None:
        """Brokers have answered; the queries begin again."""
        self.retrying = None
        self.triggered_ms.clear()

    def batch(self, batch: BatchProgress) -> None:
        """Add a batch. Called by the thread that runs the pipeline."""
        sums = self.queries.setdefault(batch.query, Sums(batch))
        sums.last = batch
        sums.batches += 1
        sums.rows += batch.rows
        if batch.lag is not None:
            sums.lags.append(batch.lag)
        for watcher in self._watchers:
            watcher(batch)

    @property
    def batches(self) -> int:
        return sum(each.batches for each in self.queries.values())

    @property
    def lag(self) -> int | None:
        """The largest lag of any query: all of them read the same topics."""
        known = [each.last.lag for each in self.queries.values() if each.last.lag is not None]
        return max(known, default=None)

    def summary(self, name: str, took_s: float, *, stopped: bool) -> str:
        """The last line of a run."""
        rows = max((each.rows for each in self.queries.values()), default=0)
        behind = "" if self.lag is None else f", {self.lag} behind"
        how = "stopped" if stopped else "done"
        return f"{name}: {how}, {rows} rows in {self.batches} batches, {took_s:.1f} s{behind}"
