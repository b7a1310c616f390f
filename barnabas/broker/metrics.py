"""Counters that cost one addition each, and their page for Prometheus.

Always: counting needs no imports and no locks; the page is built only when it is requested.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

    from barnabas.broker.broker import Broker
    from barnabas.broker.groups.metrics import GroupMetrics
    from barnabas.broker.health import Health
    from barnabas.broker.partition import Partition
    from barnabas.broker.share.metrics import ShareMetrics
    from barnabas.broker.storage.cleaner import Cleaner
    from barnabas.broker.topic import Topics

Figures = Iterable[tuple[str, str, float]]
"""The name, the description and the value of each."""


class Counts:
    """What this broker has done since it started."""

    __slots__ = (
        "appends", "bytes_in", "bytes_out", "connections_accepted", "connections_broken",
        "connections_refused", "failures", "fetches", "logins", "logins_failed", "refused",
        "replicated_in", "replicated_out",
    )  # fmt: skip

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    appends: int
    bytes_in: int
    bytes_out: int
    connections_accepted: int
    connections_broken: int
    connections_refused: int
    failures: int
    fetches: int
    logins: int
    logins_failed: int
    refused: int
    replicated_in: int
    replicated_out: int

    def fetched(self, size: int) -> None:
        self.fetches += 1
        self.bytes_out += size


async def page(broker: "Broker") -> bytes:
    """The metrics in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    figures = None
    if broker.coordination is not None:
        from barnabas.broker.groups.metrics import measure

        figures = await measure(broker.coordination, broker.topics)
    share_figures = None
    if broker.share is not None:
        from barnabas.broker.share import metrics as share_metrics

        share_figures = await share_metrics.measure(broker.share)
    registry.register(_Collector(broker, figures, share_figures))
    return generate_latest(registry)


class _Collector:
    def __init__(
        self, broker: "Broker", groups: "GroupMetrics | None", shares: "ShareMetrics | None"
    ) -> None:
        self._broker = broker
        self._groups = groups
        self._shares = shares

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        from barnabas.broker.health import health_of
        from barnabas.broker.role import Role
        from barnabas.wire.apis import APIS

        broker = self._broker
        counts = broker.counts
        figures: Figures = (
            ("appends", "Batches appended.", counts.appends),
            ("bytes_in", "Bytes of batches appended.", counts.bytes_in),
            ("bytes_out", "Bytes of batches sent to consumers.", counts.bytes_out),
            ("fetches", "Fetch requests answered.", counts.fetches),
            ("requests_refused", "Requests refused with an error.", counts.refused),
            ("request_failures", "Requests that failed in the broker.", counts.failures),
            ("connections_accepted", "Connections accepted.", counts.connections_accepted),
            ("connections_refused", "Connections over a limit.", counts.connections_refused),
            ("logins", "Logins that succeeded.", counts.logins),
            ("logins_failed", "Logins that failed.", counts.logins_failed),
            ("connections_broken", "Connections closed for a reason.", counts.connections_broken),
        )
        yield from counters("barnabas_", figures)
        requests = CounterMetricFamily("barnabas_requests", "Requests by API.", labels=["api"])
        for key, counter in broker.dispatcher.requests.items():
            requests.add_metric([APIS[key].name], counter[0])
        yield requests
        figures = (
            ("connections", "Open connections.", len(broker.connections)),
            ("topics", "Topics.", len(broker.topics)),
            ("partitions", "Partitions.", sum(len(t.partitions) for t in broker.topics)),
            ("fetch_sessions", "Incremental fetch sessions.", len(broker.fetch_sessions)),
            ("request_buffer_bytes", "Memory of current requests.", broker.request_buffer_bytes),
        )
        yield from gauges("barnabas_", figures)
        yield from _health(health_of(broker.logs, broker.heartbeat, broker.log))
        labels = ["topic", "partition"]
        yield from _compaction(broker.cleaner, broker.topics, broker.clock.wall_ms())
        end = GaugeMetricFamily("barnabas_log_end_offset", "Next offset.", labels=labels)
        high = GaugeMetricFamily(
            "barnabas_high_watermark", "Consumers read up to this offset.", labels=labels
        )
        start = GaugeMetricFamily("barnabas_log_start_offset", "First offset.", labels=labels)
        size = GaugeMetricFamily("barnabas_log_bytes", "Bytes on disk.", labels=labels)
        waiting = GaugeMetricFamily(
            "barnabas_retention_waiting_bytes",
            "Past its retention, and not in the lake's table yet.",
            labels=labels,
        )
        transactional: list[Partition] = []
        for topic in broker.topics:
            for partition in topic.partitions:
                if partition.log_directory is None:  # its log is on other brokers
                    continue
                leads = partition.role is Role.LEADER
                if leads and partition.log.producers.transactions is not None:
                    transactional.append(partition)
                values = [topic.name, str(partition.name.partition)]
                end.add_metric(values, partition.log.end_offset)
                high.add_metric(values, partition.log.high_watermark)
                start.add_metric(values, partition.log.start_offset)
                size.add_metric(values, partition.log.size)
                if partition.log.config.table_offsets is not None:
                    waiting.add_metric(values, partition.log.waiting_bytes)
        yield from (end, high, start, size, waiting)
        if broker.cluster is not None and broker.replicas is not None:
            from barnabas.broker.cluster import metrics as cluster_metrics

            yield from cluster_metrics.families(
                broker.cluster, broker.replicas, broker.topics, broker.counts
            )
        if broker.quotas is not None:
            yield from broker.quotas.families()
        if self._groups is not None and broker.coordination is not None:
            from barnabas.broker.groups.metrics import families

            yield from families(broker.coordination, self._groups)
        if broker.transactions is not None or transactional:
            from barnabas.broker.transactions import metrics as transaction_metrics

            yield from transaction_metrics.families(broker.transactions, transactional)
        if self._shares is not None and broker.share is not None:
            from barnabas.broker.share.metrics import families as share_families

            yield from share_families(broker.share, self._shares)


def counters(prefix: str, figures: Figures) -> "Iterator[CounterMetricFamily]":
    from prometheus_client.core import CounterMetricFamily

    for name, doc, value in figures:
        yield CounterMetricFamily(prefix + name, doc, value)


def gauges(prefix: str, figures: Figures) -> "Iterator[GaugeMetricFamily]":
    from prometheus_client.core import GaugeMetricFamily

    for name, doc, value in figures:
        yield GaugeMetricFamily(prefix + name, doc, value)


def _health(health: "Health") -> "Iterator[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    from barnabas.broker.health import STATES

    figures: Figures = (
        (
            "loop_delay_seconds_p99",
            "Delay of the event loop: 99 of 100 events of the last minute waited less.",
            health.loop_delay_ms_p99 / 1000,
        ),
        ("open_files", "Open file descriptors.", health.open_files),
        ("open_files_max", "Limit of open file descriptors.", health.open_files_max),
    )
    yield from gauges("barnabas_", figures)
    dropped = "Log lines dropped because standard error did not take them."
    yield from counters("barnabas_", (("log_lines_dropped", dropped, health.log_lines_dropped),))
    states = GaugeMetricFamily(
        "barnabas_log_dir_state", "1 for the state of a log directory.", labels=["path", "state"]
    )
    for each in health.log_dirs:
        for state in STATES:
            states.add_metric([each.path, state], int(state == each.state))
    yield states


def _compaction(cleaner: "Cleaner", topics: "Topics", wall_ms: int) -> "Iterator[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    from barnabas.log.compaction.cleanable import look
    from barnabas.model.errors import KafkaError

    figures: Figures = (
        ("runs", "Passes of compaction over a log.", cleaner.runs),
        ("failures", "Passes that failed.", cleaner.failures),
        ("bytes_read", "Bytes of segments compacted.", cleaner.bytes_read),
        ("bytes_written", "Bytes of the segments that replaced them.", cleaner.bytes_written),
        ("records_dropped", "Records replaced by a later one.", cleaner.records_dropped),
        ("busy_ms", "Milliseconds with a pass in progress.", cleaner.busy_ms),
    )
    yield from counters("barnabas_compaction_", figures)
    yield GaugeMetricFamily(
        "barnabas_compaction_unfit", "Logs that cannot be compacted.", len(cleaner.unfit)
    )
    labels = ["topic", "partition"]
    dirty = GaugeMetricFamily("barnabas_log_dirty_bytes", "Not compacted yet.", labels=labels)
    ratio = GaugeMetricFamily("barnabas_log_dirty_ratio", "Their share of the log.", labels=labels)
    for topic in topics:
        if "compact" not in topic.config.cleanup_policy:
            continue
        for partition in topic.partitions:
            if partition.log_directory is None:
                continue
            try:
                found = look(partition.log, wall_ms)
            except (OSError, KafkaError):
                continue  # reported by the cleaner
            values = [topic.name, str(partition.name.partition)]
            dirty.add_metric(values, found.dirty_bytes)
            ratio.add_metric(values, found.dirty_ratio)
    yield from (dirty, ratio)
