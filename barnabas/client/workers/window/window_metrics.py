"""The windows of a worker as Prometheus metrics.

In: views of its windows. Out: metric families for `prometheus_client`.
Why here and not in the broker's metrics: only the worker knows which records run.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from barnabas.client.workers.window.window_view import WindowView

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_LABELS = ("group", "topic", "partition")
_GAUGES = {
    "start": "The first offset that is not finished: what can be committed.",
    "end": "The offset after the last record that was fetched.",
    "committed": "The committed offset.",
    "records": "Records in the window.",
    "running": "Records in the handler.",
    "finished": "Finished records behind one that is not.",
    "full": "1 if the window is full: no more is fetched.",
}


def window_metrics(group: str, views: Iterable[WindowView]) -> "Iterator[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    shown = [(view, (group, view.at.topic, str(view.at.partition))) for view in views]
    for name, text in _GAUGES.items():
        gauge = GaugeMetricFamily(f"barnabas_worker_window_{name}", text, labels=_LABELS)
        for view, labels in shown:
            gauge.add_metric(labels, float(getattr(view, name)))
        yield gauge
    held = GaugeMetricFamily(
        "barnabas_worker_window_held",
        "The first unfinished records of the window, by what they wait for.",
        labels=(*_LABELS, "state"),
    )
    for view, labels in shown:
        for state, count in Counter(each.state for each in view.held).items():
            held.add_metric((*labels, state), count)
    yield held
