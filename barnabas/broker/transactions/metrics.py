"""Transactions for Prometheus: open ones, how they end, and partitions whose readers wait.

In: the shards of the coordinator, the partitions that this broker leads. Out: metric families.
Always: the number of series is bounded, whatever the number of transactional ids and partitions.
"""

from collections.abc import Iterable, Iterator
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from barnabas.broker.metrics import counters, gauges
from barnabas.broker.partition import Partition
from barnabas.coordinators.transactions.transaction import NO_TIME

if TYPE_CHECKING:
    from barnabas.broker.transactions.coordination import TransactionCoordination

PARTITIONS_MAX = 20


def families(
    transactions: "TransactionCoordination | None", partitions: Iterable[Partition]
) -> Iterator[Any]:
    """`partitions`: those that this broker leads and that have, or had, an open transaction."""
    if transactions is not None:
        yield from _coordinated(transactions)
    yield from _held_back(partitions)


def _coordinated(transactions: "TransactionCoordination") -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily

    ids = open_ = unmarked = 0
    oldest_ms: int | None = None
    for shard in transactions.shards_loaded():
        table = shard.table
        ids += len(table.transactions)
        open_ += len(table.ongoing) + len(table.unmarked)
        unmarked += sum(
            len(indexes) for each in table.unmarked.values() for indexes in each.values()
        )
        for id_ in (*table.ongoing, *table.unmarked):
            started_ms = table.transactions[id_].started_ms
            if started_ms != NO_TIME and (oldest_ms is None or started_ms < oldest_ms):
                oldest_ms = started_ms
    age_s = 0.0
    if oldest_ms is not None:
        age_s = max(0, transactions.led.now().wall_ms - oldest_ms) / 1_000
    yield from gauges(
        "barnabas_",
        (
            ("transactional_ids", "Transactional ids of this coordinator.", ids),
            ("transactions_open", "Transactions that are not completed.", open_),
            ("transaction_oldest_open_seconds", "Age of the oldest of them; 0: none.", age_s),
            ("transaction_markers_pending", "Partitions that wait for a marker.", unmarked),
        ),
    )
    statistics = transactions.statistics
    committed = "Transactions that this coordinator decided to commit."
    yield from counters("barnabas_", (("transactions_committed", committed, statistics.commits),))
    aborted = CounterMetricFamily(
        "barnabas_transactions_aborted",
        "Transactions that this coordinator decided to abort, by cause.",
        labels=["cause"],
    )
    for kind, count in statistics.aborts.items():
        aborted.add_metric([kind.name.lower()], count)
    yield aborted


def _held_back(partitions: Iterable[Partition]) -> Iterator[Any]:
    """Where readers of committed records stop below the high watermark."""
    from prometheus_client.core import GaugeMetricFamily

    gaps: dict[Partition, int] = {}
    for partition in partitions:
        gap = partition.log.high_watermark - partition.log.last_stable_offset
        if gap > 0:
            gaps[partition] = gap
    yield from gauges(
        "barnabas_",
        (
            (
                "partitions_held_back",
                "Partitions whose last stable offset is below the high watermark.",
                len(gaps),
            ),
            (
                "held_back_offsets_max",
                "The most offsets that are hidden from readers of committed records.",
                max(gaps.values(), default=0),
            ),
        ),
    )
    largest = GaugeMetricFamily(
        "barnabas_partition_held_back_offsets",
        f"Offsets hidden from readers of committed records; the {PARTITIONS_MAX} largest.",
        labels=["topic", "partition"],
    )
    for partition in nlargest(PARTITIONS_MAX, gaps, key=gaps.__getitem__):
        topic, number = partition.name
        largest.add_metric([topic, str(number)], gaps[partition])
    yield largest
