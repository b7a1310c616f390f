"""The progress of a run on a terminal: one line per query, redrawn after each batch.

Without a terminal only notes and the summary are written, not a line per batch.
"""

import time
from types import TracebackType
from typing import Self

import click

from barnabas.cli.pipelines.drawing import Drawing
from barnabas.model.words import printable
from barnabas.pipeline.run.progress import BatchProgress, Progress


class Terminal:
    """Standard error, as long as the run."""

    def __init__(self, name: str, progress: Progress) -> None:
        self._name = name
        self._progress = progress
        self._drawing = Drawing()
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        self._drawing.draw([f"{self._name}: starting Spark ..."])
        if self._drawing.live:
            self._progress.watch(self._batch)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._drawing.clear()

    def note(self, line: str) -> None:
        self._drawing.clear()
        click.echo(printable(line), err=True)

    def summary(self, *, stopped: bool) -> None:
        self._drawing.clear()
        took_s = time.monotonic() - self._began
        click.echo(self._progress.summary(self._name, took_s, stopped=stopped), err=True)

    def _batch(self, batch: BatchProgress) -> None:
        lines = []
        for name, sums in self._progress.queries.items():
            last = sums.last
            lag = "" if last.lag is None else f"{last.lag:>10,} behind"
            lines.append(
                f"{name}  {sums.batches:>6,} batches {sums.rows:>12,} rows"
                f" {last.rows_per_s:>10,.0f} rows/s {last.took_ms:>7,} ms {lag}"
            )
        self._drawing.draw(lines)
