"""How late the records of a delayer were, and its metrics."""

from prometheus_client import CollectorRegistry, generate_latest

from barnabas.client.delay.delay_metrics import DelayCollector
from barnabas.client.delay.delay_statistics import DelayStatistics, DelayView, percentile_ms


def test_percentiles_are_values_that_were_measured() -> None:
    values = list(range(100, 0, -1))
    assert [percentile_ms(values, part) for part in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert percentile_ms([7], 0.99) == 7
    assert percentile_ms([], 0.5) is None


def test_a_bucket_has_all_records_that_are_not_later() -> None:
    found = DelayStatistics()
    found.delivered_late([0, 5, 6, 50, 51, 10**9])
    buckets = dict(found.buckets())
    assert (buckets["0.005"], buckets["0.05"], buckets["300.0"], buckets["+Inf"]) == (2, 4, 5, 6)
    assert found.delivered == 6


def test_the_metrics_name_what_waits_and_how_late_the_last_records_were() -> None:
    found = DelayStatistics()
    found.delivered_late([10] * 98 + [40, 70])
    found.cancelled = 3
    registry = CollectorRegistry(auto_describe=False)
    registry.register(
        DelayCollector(
            lambda: [
                DelayView("later", 0, found, waiting=12, held=2, next_due_ms=1_500),
                DelayView("later", 1, DelayStatistics()),
            ]
        )
    )
    page = generate_latest(registry).decode().splitlines()
    labels = '{partition="0",topic="later"}'
    for line in (
        f"barnabas_delay_waiting{labels} 12.0",
        f"barnabas_delay_held{labels} 2.0",
        f"barnabas_delay_next_due_timestamp_seconds{labels} 1.5",
        f"barnabas_delay_delivered_total{labels} 100.0",
        f"barnabas_delay_cancelled_total{labels} 3.0",
        f"barnabas_delay_dead_letters_total{labels} 0.0",
        'barnabas_delay_lateness_seconds_bucket{le="0.05",partition="0",topic="later"} 99.0',
        f"barnabas_delay_lateness_p50_seconds{labels} 0.01",
        f"barnabas_delay_lateness_p99_seconds{labels} 0.04",
    ):
        assert line in page, "\n".join(page)
    silent = '{partition="1",topic="later"}'
    assert not [line for line in page if line.startswith("barnabas_delay_next") and silent in line]
