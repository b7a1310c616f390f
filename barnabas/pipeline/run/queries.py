"""Looks after the queries of a pipeline: what each batch did, which one failed, when to stop.

In: queries of Spark that run. Out: a Batch for each that they finish (progress.py).
Always: told to stop, a query finishes the batch that is under way, unless that takes too long; one
that is cut off is repeated by the next run.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

from barnabas.pipeline.run.progress import BatchProgress, Progress
from barnabas.pipeline.run.stopping import StopRequest

STOP_S_MAX = 60.0
_LOOK_S = 0.3


def look_after(
    queries: list[Any], progress: Progress, stop: StopRequest, *, passes: int = 1
) -> None:
    """Until all have ended, one has failed, or a stop is asked for.

    `passes`: how often a batch is read, each of which Spark counts.
    """
    news = [UnreportedBatches(query, passes) for query in queries]
    while True:
        # Asked before the news: what has ended has nothing to tell after it.
        running = [query for query in queries if query.isActive]
        for each in news:
            for batch in each.batches():
                progress.batch(batch)
        for query in queries:
            if not query.isActive:
                query.awaitTermination()  # raises what it failed of
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
    """Let each end its batch; a stop that is asked for again waits for none."""
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
    """The batches of a query that have not been told yet."""

    def __init__(self, query: Any, passes: int) -> None:
        self._query = query
        self._passes = passes
        self._told = -1

    def batches(self) -> Iterator[BatchProgress]:
        last = self._query.lastProgress
        if last is None or last.batchId <= self._told:
            return
        # Spark keeps the last hundred; to read them all is only worth it when some were missed.
        known = [last] if last.batchId == self._told + 1 else self._query.recentProgress
        for progress in known:
            # What Spark reports of an idle query has the number of a batch that is yet to come.
            if progress.batchId > self._told and "addBatch" in progress.durationMs:
                self._told = progress.batchId
                yield batch_of(self._query.name, progress, self._passes)


def batch_of(name: str, progress: Any, passes: int = 1) -> BatchProgress:
    return BatchProgress(
        query=name,
        number=int(progress.batchId),
        rows=int(progress.numInputRows) // passes,
        took_ms=int(progress.durationMs.get("triggerExecution", 0)),
        lag=_lag(progress),
    )


def _lag(progress: Any) -> int | None:
    """Between the end of the batch and the end of the topics, as the source saw it."""
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
