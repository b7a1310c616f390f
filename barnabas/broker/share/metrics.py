"""Share groups for Prometheus: deliveries and how they end, records in flight, lag, age.

In: the share partitions that are loaded here. Out: metric families.
Always: bounded: share partitions beyond a limit are counted, not shown; timestamps are read in a
thread. A broker without share groups exports none of it.
"""

from collections.abc import Iterator
from heapq import nlargest
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.groups.lag import GroupPosition, unread_since_ms
from barnabas.broker.metrics import counters, gauges
from barnabas.coordinators.share.delivery_causes import DeliveryStatistics
from barnabas.model.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.share.partitions import LoadedShare
    from barnabas.broker.share.service import ShareService

PARTITIONS_MAX = 500
LABELS = ("group", "topic", "partition")


class ShareFigures(NamedTuple):
    """One share partition. `oldest_s`: since its first unfinished record was written."""

    labels: list[str]
    in_flight: int
    limit: int
    lag: int
    oldest_s: float
    delivered: int
    redelivered: int


class ShareMetrics(NamedTuple):
    """All at one moment, up to the limit."""

    partitions: list[ShareFigures]
    left_out: int


async def measure(service: "ShareService") -> ShareMetrics:
    loaded = [share for share in service.partitions if share.machine is not None]
    shown = nlargest(PARTITIONS_MAX, loaded, key=_in_flight)
    places = []
    for share in shown:
        name = share.partition.name
        machine = share.machine
        assert machine is not None
        try:
            end = share.end
        except KafkaError:  # its log cannot be read
            end = machine.start
        places.append(GroupPosition(share.key.group, *name, machine.start, end))
    times = await unread_since_ms(service.broker.topics, places)
    now_ms = service.now().wall_ms
    figures = []
    for share, place, since_ms in zip(shown, places, times, strict=True):
        machine = share.machine
        assert machine is not None
        figures.append(
            ShareFigures(
                [place.group, place.topic, str(place.partition)],
                machine.in_flight,
                machine.options.locks_max,
                max(0, place.end - machine.start - machine.complete),
                0.0 if since_ms is None else max(0, now_ms - since_ms) / 1_000,
                machine.statistics.acquired,
                machine.statistics.redelivered,
            )
        )
    return ShareMetrics(figures, len(loaded) - len(shown))


def _in_flight(share: "LoadedShare") -> int:
    return 0 if share.machine is None else share.machine.in_flight


def families(service: "ShareService", metrics: ShareMetrics) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily

    yield from gauges(
        "barnabas_share_",
        (
            ("sessions", "Share sessions of members.", len(service.sessions.sessions)),
            ("partitions", "Share partitions in memory.", len(service.partitions)),
            ("runs", "Runs of offsets of all share partitions.", service.room.runs),
            ("left_out", "Share partitions without series of their own.", metrics.left_out),
        ),
    )
    total = DeliveryStatistics()
    total.add(service.ended)
    for share in service.partitions:
        if share.machine is not None:
            total.add(share.machine.statistics)
    yield from counters(
        "barnabas_share_",
        (
            ("deliveries", "Records delivered to members.", total.acquired),
            ("redeliveries", "Of these, records delivered before.", total.redelivered),
            ("dead_letters", "Dead letters written.", service.dead_letters),
            ("dead_letters_failed", "Records archived without one.", service.dead_letters_failed),
            ("state_writes", "Changes of stored state.", service.writes),
            ("state_writes_refused", "Changes that were not stored.", service.writes_refused),
        ),
    )
    outcomes = CounterMetricFamily(
        "barnabas_share_outcomes", "Records by what became of a delivery.", labels=["outcome"]
    )
    for name, records in total.counts.items():
        outcomes.add_metric([name], records)
    yield outcomes
    yield from _by_partition(metrics.partitions)


def _by_partition(partitions: list[ShareFigures]) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    in_flight = GaugeMetricFamily(
        "barnabas_share_in_flight",
        "Offsets from the start offset to the last delivered one.",
        labels=LABELS,
    )
    limit = GaugeMetricFamily("barnabas_share_in_flight_limit", "The most of them.", labels=LABELS)
    lag = GaugeMetricFamily("barnabas_share_lag", "Records not finished.", labels=LABELS)
    oldest = GaugeMetricFamily(
        "barnabas_share_oldest_unfinished_seconds",
        "Since the first of them was written; 0: there is none.",
        labels=LABELS,
    )
    delivered = CounterMetricFamily(
        "barnabas_share_partition_deliveries", "Records delivered to members.", labels=LABELS
    )
    redelivered = CounterMetricFamily(
        "barnabas_share_partition_redeliveries",
        "Of these, records delivered before.",
        labels=LABELS,
    )
    for each in partitions:
        in_flight.add_metric(each.labels, each.in_flight)
        limit.add_metric(each.labels, each.limit)
        lag.add_metric(each.labels, each.lag)
        oldest.add_metric(each.labels, each.oldest_s)
        delivered.add_metric(each.labels, each.delivered)
        redelivered.add_metric(each.labels, each.redelivered)
    yield from (in_flight, limit, lag, oldest, delivered, redelivered)
