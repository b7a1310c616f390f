"""Decides whether somebody should look at a pipeline, why it is behind, and what to do.

In: its last batch, phase by phase; how many records arrive; which partitions wait. Out: a verdict:
whether it is behind, whether it catches up, and the cause. And from the progress of a run: alerts,
which are metrics of the run and the exit code of `barnabas pipeline alerts`.
Pure: cli/pipelines/explain.py looks; the time is passed in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.pipeline.run.progress import LAGS_KEPT, Progress

FAILED, RETRYING, STALLED, BEHIND = "failed", "retrying", "stalled", "behind"
ALERTS = (FAILED, RETRYING, STALLED, BEHIND)
STALLED_MS_MIN = 600_000
_INTERVALS, _BATCHES = 3, 10  # a trigger may take so many intervals and as long as so many batches
_LAG_MIN = 1000  # fewer records are not worth a word
_SHARE = 0.4  # of a batch
_SKEW = 0.6  # of all waiting records in one partition
_FASTER = 1.1
SOURCE, PLAN, LOG, FILES, COMMIT = "source", "plan", "log", "files", "commit"


@dataclass(frozen=True)
class PipelineView:
    """What can be seen of a pipeline from outside. `lags`: by partition."""

    name: str
    running: bool
    rows_per_s: float
    batch_ms: int
    interval_ms: int
    arriving_per_s: float
    lags: Mapping[str, int]
    cores: int | None = None
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None

    @property
    def lag(self) -> int:
        return sum(self.lags.values())

    def share(self, *phases: str) -> float:
        return sum(self.phases_ms.get(each, 0) for each in phases) / max(self.batch_ms, 1)


@dataclass(frozen=True)
class PipelineVerdict:
    """`cause`: None if the pipeline is not behind."""

    fine: bool
    cause: str | None
    lines: list[str]


def explained(view: PipelineView) -> PipelineVerdict:
    facts = (
        f"{view.lag} records wait; {view.arriving_per_s:.0f} arrive per second, and the last batch"
        f" handled {view.rows_per_s:.0f} per second in {view.batch_ms} ms"
    )
    if not view.running:
        said = f"it does not run{f': {view.error}' if view.error else ''}"
        return PipelineVerdict(False, "stopped", [said, facts])
    per_trigger = view.arriving_per_s * max(view.batch_ms, view.interval_ms) / 1000
    if view.lag <= max(_LAG_MIN, 2 * per_trigger):
        return PipelineVerdict(True, None, ["it is not behind", facts])
    catches_up = view.rows_per_s > view.arriving_per_s * _FASTER
    if catches_up:
        rest_s = view.lag / (view.rows_per_s - view.arriving_per_s)
        first = f"it is behind, and catches up in about {rest_s:.0f} s"
    else:
        first = "it is behind, and does not catch up"
    cause, text = _cause(view)
    return PipelineVerdict(catches_up, cause, [first, facts, f"{cause}: {text}"])


def _cause(view: PipelineView) -> tuple[str, str]:
    """The first that applies; later ones are less certain."""
    if not view.batch_ms:
        return "start", "no batch has ended yet"
    at, most = max(view.lags.items(), key=lambda each: each[1])
    if len(view.lags) > 1 and most > _SKEW * view.lag:
        return "skew", (
            f"{at} has {100 * most // view.lag}% of the waiting records: spread the keys, or set"
            " source.options.maxRecordsPerPartition to split its range between tasks"
        )
    if view.share(SOURCE) > _SHARE:
        return "source", (
            f"{_percent(view, SOURCE)} of the batch is spent asking the brokers for offsets: look"
            " at them with barnabas status"
        )
    if view.share(COMMIT) > _SHARE:
        return "store", (
            f"{_percent(view, COMMIT)} of the batch is the commit to the table: run barnabas lake"
            " maintain, and use larger batches (a longer run.trigger)"
        )
    if view.share(PLAN, LOG) > _SHARE:
        return "small batches", (
            f"{_percent(view, PLAN, LOG)} of the batch is Spark's own work, whatever its size: use"
            " larger batches (a longer run.trigger)"
        )
    if view.cores is not None and len(view.lags) < view.cores:
        return "too few tasks", (
            f"{len(view.lags)} partitions make {len(view.lags)} tasks, and there are"
            f" {view.cores} cores: set source.options.minPartitions to {view.cores}"
        )
    return "function", (
        "reading, transforming and writing rows takes the time: use more cores (run.master), or a"
        " faster format or transform"
    )


def _percent(view: PipelineView, *phases: str) -> str:
    return f"{min(100, round(100 * view.share(*phases)))}%"


def alerts_of(
    name: str, progress: Progress, interval_ms: int | None, now_ms: int
) -> dict[str, str]:
    """Empty if all is well. `interval_ms`: of a pipeline that runs until it is stopped."""
    found: dict[str, str] = {}
    if progress.failed is not None:
        found[FAILED] = progress.failed
    if progress.retrying is not None:
        found[RETRYING] = f"it tries again: {progress.retrying}"
    for query, sums in progress.queries.items():
        if len(sums.lags) == LAGS_KEPT and min(sums.lags) > _LAG_MIN:
            first, last = sums.lags[0], sums.lags[-1]
            if last >= first:
                found[BEHIND] = (
                    f"{query} is {last} records behind, and was {first} behind {LAGS_KEPT - 1}"
                    f" batches ago: barnabas pipeline explain {name} says why"
                )
    for query, triggered_ms in progress.triggered_ms.items():
        quiet_ms = now_ms - triggered_ms
        if quiet_ms > _quiet_ms_max(progress, query, interval_ms):
            found[STALLED] = (
                f"{query} has finished no batch and no look at its topics for {quiet_ms // 1000} s:"
                " its batch may be too large (source.options.maxOffsetsPerTrigger), or Spark has no"
                " executors"
            )
    return found


def _quiet_ms_max(progress: Progress, query: str, interval_ms: int | None) -> int:
    sums = progress.queries.get(query)
    batch_ms = 0 if sums is None else sums.last.took_ms
    return max(STALLED_MS_MIN, _INTERVALS * (interval_ms or 0) + _BATCHES * batch_ms)
