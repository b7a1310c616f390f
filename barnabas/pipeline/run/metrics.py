"""Serves the progress of a run to Prometheus, as brokers serve their metrics."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.progress import Progress

_LABELS = ["pipeline", "query"]


class Collector:
    """Reads the progress of a run at each scrape."""

    def __init__(self, pipeline: str, progress: Progress) -> None:
        self._pipeline = pipeline
        self._progress = progress

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
        for query, sums in list(self._progress.queries.items()):
            labels = [self._pipeline, query]
            batches.add_metric(labels, sums.batches)
            rows.add_metric(labels, sums.rows)
            pace.add_metric(labels, sums.last.rows_per_s)
            took.add_metric(labels, sums.last.took_ms / 1000)
            if sums.last.lag is not None:
                lag.add_metric(labels, sums.last.lag)
        yield from (batches, rows, pace, took, lag)


@contextmanager
def served(pipeline: str, progress: Progress, host: str, port: int) -> Iterator[str]:
    """Serves the page, and yields its address."""
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(pipeline, progress))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as problem:
        raise PipelineError(
            f"--metrics: {host}:{port} cannot be listened on: {problem.strerror or problem}"
        ) from None
    try:
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
