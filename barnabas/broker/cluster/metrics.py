"""Prometheus metrics of the controller and of replication, for a broker in a cluster.

The cluster's own figures (offline, under-replicated) come from the controller; each broker reports
the partitions it leads and follows. The meanings are Kafka's, the spelling is ours.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.broker.metrics import Counts, Figures, counters, gauges
from barnabas.broker.topic import Topics

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from barnabas.broker.cluster.membership import ClusterMembership
    from barnabas.broker.replicas.isr_proposals import Proposals
    from barnabas.broker.replicas.roles import Replicas


def families(
    cluster: "ClusterMembership", replicas: "Replicas", topics: Topics, counts: Counts
) -> "Iterator[Metric]":
    yield from _controller(cluster)
    yield from _replication(cluster, replicas.proposals, topics, counts)


def _controller(cluster: "ClusterMembership") -> "Iterator[Metric]":
    controlling = cluster.controlling
    figures: Figures = (
        ("active", "1 on the broker that is controller.", int(controlling.active)),
        ("epoch", "Epoch of the last controller known.", controlling.epoch),
        ("queue_length", "Events that wait for the controller.", controlling.queue_length),
        ("offline_partitions", "Partitions without a leader.", controlling.offline_partitions),
        (
            "under_replicated",
            "Partitions with replicas that are not in sync.",
            controlling.under_replicated,
        ),
        (
            "imbalanced",
            "Partitions that are not led by their preferred replica.",
            controlling.preferred_imbalance,
        ),
        ("last_election_ms", "How long the last elections took.", controlling.election_ms_last),
    )
    yield from gauges("barnabas_controller_", figures)
    figures = (
        ("elections", "Partitions that got a leader.", controlling.elections),
        (
            "unclean_elections",
            "Elections of a leader outside the ISR.",
            controlling.unclean_elections,
        ),
        ("election_ms", "Milliseconds of all elections.", controlling.election_ms_total),
    )
    yield from counters("barnabas_controller_", figures)


def _replication(
    cluster: "ClusterMembership", proposals: "Proposals", topics: Topics, counts: Counts
) -> "Iterator[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    figures: Figures = (
        ("isr_shrinks", "In-sync sets that this broker made smaller.", proposals.shrinks),
        ("isr_expands", "In-sync sets that this broker made larger.", proposals.expands),
        ("bytes_in", "Bytes of batches fetched from leaders.", counts.replicated_in),
        ("bytes_out", "Bytes of batches sent to followers.", counts.replicated_out),
    )
    yield from counters("barnabas_replication_", figures)
    leads = follows = behind = below_min = 0
    lag = GaugeMetricFamily(
        "barnabas_replication_lag",
        "Records that a follower has still to fetch, the most of any partition led here.",
        labels=["follower"],
    )
    lags: dict[int, int] = {}
    for topic in topics:
        for partition in topic.partitions:
            follows += partition.following is not None
            leading = partition.leading
            if leading is None:
                continue
            leads += 1
            behind += len(partition.in_sync) < len(partition.replicas)
            below_min += len(partition.in_sync) < partition.min_isr
            end = partition.log.end_offset
            for follower, progress in leading.machine.followers.items():
                lags[follower] = max(lags.get(follower, 0), end - max(0, progress.end))
    for broker_id, records in sorted(lags.items()):
        lag.add_metric([str(broker_id)], records)
    figures = (
        ("leads", "Partitions led here.", leads),
        ("follows", "Partitions followed here.", follows),
        ("under_replicated", "Led here, with replicas that are not in sync.", behind),
        ("under_min_isr", "Led here, with too few in sync for acks=all.", below_min),
        ("brokers", "Brokers that live, as this one knows.", len(cluster.members)),
    )
    yield from gauges("barnabas_replication_", figures)
    yield lag
