"""Watches the queries of a pipeline: reports batches and failures, and stops the queries.

In: running queries of Spark. Out: a Batch for each batch that they finish (progress.py).
Always: on a stop, a query finishes its current batch, unless that takes too long. The next run
repeats a batch that was interrupted. Few queries of a process start at the same time.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from threading import BoundedSemaphore
from typing import Any

from barnabas.pipeline.run.explain import LOG, PLAN, SOURCE
from barnabas.pipeline.run.progress import BatchProgress, Progress
from barnabas.pipeline.run.stopping import StopRequest

STOP_S_MAX = 60.0
_LOOK_S = 0.3
_BEGIN_S_MAX = 30.0
_BEGUN = ("Processing", "Waiting")  # as Spark describes a query whose source has answered

# Spark gives the Python process of a source ten seconds to start. If the sources of many pipelines
# start at the same time, all of them are too late, and all are started again at the same time.
_starts = BoundedSemaphore(max(1, (os.cpu_count() or 1) // 2))


def begun(start: Callable[[], Any], stop: StopRequest) -> Any:
    """Starts a query, and waits until its source has answered, for a while."""
    with _starts:
        query = start()
        deadline = time.monotonic() + _BEGIN_S_MAX
        while query.isActive and not _has_begun(query) and time.monotonic() < deadline:
            if stop.wait(_LOOK_S / 3):
                break
        return query


def _has_begun(query: Any) -> bool:
    if query.lastProgress is not None:
        return True
    status = query.status
    return bool(status["isDataAvailable"]) or str(status["message"]).startswith(_BEGUN)


def look_after(
    queries: list[Any],
    progress: Progress,
    stop: StopRequest,
    *,
    passes: int = 1,
    phases_ms: Mapping[str, int] | None = None,
) -> None:
    """Wait until all queries have ended, one has failed, or a stop is requested.

    `passes`: how often a batch is read; Spark counts its rows each time. `phases_ms`: of the last
    batch, those that Spark does not know.
    """
    news = [UnreportedBatches(query, passes, phases_ms or {}) for query in queries]
    while True:
        # Read before the progress: a query that has ended reports no progress after that.
        running = [query for query in queries if query.isActive]
        for each in news:
            for batch in each.batches():
                progress.batch(batch)
            if each.has_triggered():
                progress.triggered(each.name, int(time.monotonic() * 1000))
        progress.alive()
        for query in queries:
            if not query.isActive:
                query.awaitTermination()  # raises the query's error
        if not running:
            return
        if stop.asked:
            _finish(running, stop)
            for each in news:
                for batch in each.batches():
                    progress.batch(batch)
            return
        stop.wait(_LOOK_S)


def _finish(queries: list[Any], stop: StopRequest) -> None:
    """Let each query finish its batch. A second stop request does not wait."""
    deadline = time.monotonic() + STOP_S_MAX
    for query in queries:
        number = _number(query)
        while (
            query.isActive
            and query.status["isTriggerActive"]
            and _number(query) == number
            and time.monotonic() < deadline
            and not stop.at_once
        ):
            time.sleep(0.05)
        query.stop()


def _number(query: Any) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress.batchId)


class UnreportedBatches:
    """The batches of a query that have not been reported yet."""

    def __init__(self, query: Any, passes: int, phases_ms: Mapping[str, int]) -> None:
        self._query = query
        self._passes = passes
        self._phases_ms = phases_ms
        self._reported = -1
        self._trigger: str | None = ""  # the time of the last one; None: none yet
        self.name = str(query.name)

    def has_triggered(self) -> bool:
        """Whether a trigger has ended since the last call; the start counts as one."""
        last = self._query.lastProgress
        found = None if last is None else str(last.timestamp)
        if found == self._trigger:
            return False
        self._trigger = found
        return True

    def batches(self) -> Iterator[BatchProgress]:
        last = self._query.lastProgress
        if last is None or last.batchId <= self._reported:
            return
        # Spark keeps the last hundred; reading all of them is slow, so only if some were missed.
        known = [last] if last.batchId == self._reported + 1 else self._query.recentProgress
        for progress in known:
            # For an idle query, Spark reports the number of the next batch.
            if progress.batchId > self._reported and "addBatch" in progress.durationMs:
                self._reported = progress.batchId
                yield batch_of(self._query.name, progress, self._passes, self._phases_ms)


def batch_of(
    name: str, progress: Any, passes: int = 1, phases_ms: Mapping[str, int] | None = None
) -> BatchProgress:
    took: Mapping[str, int] = progress.durationMs
    return BatchProgress(
        query=name,
        number=int(progress.batchId),
        rows=int(progress.numInputRows) // passes,
        took_ms=int(progress.durationMs.get("triggerExecution", 0)),
        lag=_lag(progress),
        phases_ms={
            SOURCE: int(took.get("latestOffset", 0)) + int(took.get("getBatch", 0)),
            PLAN: int(took.get("queryPlanning", 0)),
            LOG: int(took.get("walCommit", 0)) + int(took.get("commitOffsets", 0)),
            **(phases_ms or {}),
        },
    )


def _lag(progress: Any) -> int | None:
    """The records between the end of the batch and the end of the topics, as the source saw it."""
    behind = None
    for source in progress.sources:
        try:
            end, latest = json.loads(source.endOffset), json.loads(source.latestOffset)
            behind = (behind or 0) + sum(
                max(offset - end.get(topic, {}).get(number, 0), 0)
                for topic, partitions in latest.items()
                for number, offset in partitions.items()
            )
        except (TypeError, ValueError, AttributeError):
            continue  # another kind of source
    return behind
