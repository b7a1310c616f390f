"""The holding partitions of a delayer as Prometheus metrics.

In: views of its partitions. Out: metric families for `prometheus_client`.
Why here and not in the broker's metrics: only the delayer knows which records wait.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barnabas.client.delay.delay_statistics import DelayView, percentile_ms

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_PREFIX = "barnabas_delay"
_LABELS = ("topic", "partition")
_COUNTERS = {
    "delivered": "Records that were delivered.",
    "cancelled": "Records that were cancelled.",
    "dead_letters": "Records that could not be delivered, and went to the dead letter topic.",
}
_GAUGES = {
    "waiting": "Records that wait for their time.",
    "held": "Due records whose target cannot be written at the moment.",
}
_PERCENTILES = {"p50": 0.5, "p99": 0.99}


class DelayCollector:
    """Reads the partitions at each scrape."""

    def __init__(self, views: Callable[[], list[DelayView]]) -> None:
        self._views = views

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        shown = [(view, (view.topic, str(view.partition))) for view in self._views()]
        for name, text in _GAUGES.items():
            gauge = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=_LABELS)
            for view, labels in shown:
                gauge.add_metric(labels, getattr(view, name))
            yield gauge
        due = GaugeMetricFamily(
            f"{_PREFIX}_next_due_timestamp_seconds",
            "The time of the record that is due next, in seconds since 1970.",
            labels=_LABELS,
        )
        for view, labels in shown:
            if view.next_due_ms is not None:
                due.add_metric(labels, view.next_due_ms / 1000)
        yield due
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=_LABELS)
            for view, labels in shown:
                counter.add_metric(labels, getattr(view.statistics, name))
            yield counter
        late = HistogramMetricFamily(
            f"{_PREFIX}_lateness_seconds",
            "From the time of a record to the commit of its delivery.",
            labels=_LABELS,
        )
        for view, labels in shown:
            found = view.statistics
            late.add_metric(labels, found.buckets(), sum_value=found.lateness_ms_sum / 1000)
        yield late
        for name, part in _PERCENTILES.items():
            gauge = GaugeMetricFamily(
                f"{_PREFIX}_lateness_{name}_seconds",
                f"The {name} of the lateness of the last 1,000 deliveries.",
                labels=_LABELS,
            )
            for view, labels in shown:
                if (value := percentile_ms(view.statistics.recent(), part)) is not None:
                    gauge.add_metric(labels, value / 1000)
            yield gauge


@contextmanager
def served(views: Callable[[], list[DelayView]], host: str, port: int) -> Iterator[str]:
    """Serves the page from a thread, and yields its address. An OSError if it cannot listen."""
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry(auto_describe=False)
    registry.register(DelayCollector(views))
    server, thread = start_http_server(port, host, registry)
    try:
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
