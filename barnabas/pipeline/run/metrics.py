"""Serves the progress and the alerts of runs to Prometheus, as brokers serve their metrics."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.explain import ALERTS, alerts_of
from barnabas.pipeline.run.progress import Progress

_LABELS = ["pipeline", "query"]


@dataclass(frozen=True)
class MeasuredRun:
    """A run with its name. `interval_ms`: of its spec."""

    pipeline: str
    progress: Progress
    interval_ms: int | None = None


Runs = Callable[[], list[MeasuredRun]]


class Collector:
    """Reads the progress of all runs at each scrape."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        prefix = "barnabas_pipeline"
        batches = CounterMetricFamily(f"{prefix}_batches", "Batches finished.", labels=_LABELS)
        rows = CounterMetricFamily(f"{prefix}_rows", "Rows read.", labels=_LABELS)
        pace = GaugeMetricFamily(f"{prefix}_rows_per_second", "Of the last batch.", labels=_LABELS)
        took = GaugeMetricFamily(f"{prefix}_batch_seconds", "Of the last batch.", labels=_LABELS)
        lag = GaugeMetricFamily(
            f"{prefix}_lag", "Unread records after the last batch.", labels=_LABELS
        )
        alert = GaugeMetricFamily(
            f"{prefix}_alert", "1: somebody should look at it.", labels=["pipeline", "alert"]
        )
        now_ms = int(time.monotonic() * 1000)
        for run in self._runs():
            for query, sums in list(run.progress.queries.items()):
                labels = [run.pipeline, query]
                batches.add_metric(labels, sums.batches)
                rows.add_metric(labels, sums.rows)
                pace.add_metric(labels, sums.last.rows_per_s)
                took.add_metric(labels, sums.last.took_ms / 1000)
                if sums.last.lag is not None:
                    lag.add_metric(labels, sums.last.lag)
            found = alerts_of(run.pipeline, run.progress, run.interval_ms, now_ms)
            for name in ALERTS:
                alert.add_metric([run.pipeline, name], name in found)
        yield from (batches, rows, pace, took, lag, alert)


@contextmanager
def served(runs: Runs, host: str, port: int) -> Iterator[str]:
    """Serves the page, and yields its address."""
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(runs))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as problem:
        raise PipelineError(
            f"--metrics: {host}:{port} cannot be listened on: {problem.strerror or problem}:"
            " choose another port; 0 picks a free one"
        ) from None
    try:
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
