"""The progress of a run: batches, rows, time and lag of each of its queries.

In: a Batch for each batch that a query finishes, and for each round of a mirror. Out: the sums, and
the same Batch to every watcher: the terminal, the run's file (roster.py), Prometheus.
"""

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


@dataclass
class Sums:
    """The sums of one query since the run began."""

    last: BatchProgress
    batches: int = 0
    rows: int = 0


Watcher = Callable[[BatchProgress], None]


class Progress:
    """The progress of one run."""

    def __init__(self) -> None:
        self.queries: dict[str, Sums] = {}
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> None:
        """Add a batch. Called by the thread that runs the pipeline."""
        self._watchers.append(watcher)

    def batch(self, batch: BatchProgress) -> None:
        sums = self.queries.setdefault(batch.query, Sums(batch))
        sums.last = batch
        sums.batches += 1
        sums.rows += batch.rows
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
