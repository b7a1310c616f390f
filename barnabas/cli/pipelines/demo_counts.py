"""Counts, at the end of a demo, what is stored: in topics of two clusters and in files."""

import json
import zlib
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.partition_consumer import PartitionConsumer
from barnabas.client.consumer.message import Message
from barnabas.client.tables import table
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.run import demo
from barnabas.pipeline.run.spec import Spec

if TYPE_CHECKING:
    from barnabas.cli.pipelines.demo import Sent

_LATEST = -1


class Counted(NamedTuple):
    """The counts of the stored data, except `sent`."""

    sent: "Sent"
    orders: int
    windows: int  # good orders in the windows of revenue
    cents: int
    lake: int
    lake_offsets: int  # different offsets in the topic that its rows come from
    mirror: int
    same: bool  # the mirror, record by record
    dead: int
    as_one: int | None  # rows of the lake and its topic, read as one


def lags(servers: str, groups: list[str]) -> dict[str, int]:
    """Records of the topic that each group has not read."""
    partitions = [TopicPartition(demo.TOPIC, number) for number in range(demo.PARTITIONS)]
    with Admin({"bootstrap.servers": servers, "client.id": "demo"}) as admin:
        done = admin.groups_offsets(groups)
        ends = admin.offsets(dict.fromkeys(partitions, _LATEST))
    return {
        group: sum(
            ends[at].offset - (done[group][at].offset if at in done[group] else 0)
            for at in partitions
        )
        for group in groups
    }


def count(here: str, there: str, spec: Spec, sent: "Sent", as_one: int | None) -> Counted:
    orders, mirror = _records(here, demo.TOPIC), _records(there, demo.TOPIC)
    told = _records(here, demo.WINDOWS)
    last = {message.key: json.loads(message.value or b"{}") for message in told}
    lake, offsets = _lake(spec)
    return Counted(
        sent=sent,
        orders=len(orders),
        windows=sum(window["orders"] for window in last.values()),
        cents=sum(window["cents"] for window in last.values()),
        lake=lake,
        lake_offsets=offsets,
        mirror=len(mirror),
        same=_digest(orders) == _digest(mirror),
        dead=len(_records(here, demo.DEAD)),
        as_one=as_one,
    )


def _records(servers: str, topic: str) -> list[Message[bytes | None, bytes | None]]:
    """In order of partition and offset."""
    with open_cluster({"bootstrap.servers": servers, "client.id": "demo"}, {}) as cluster:
        known = Admin(cluster=cluster).topic(topic).partitions
        partitions = [TopicPartition(topic, each.number) for each in known]
        with PartitionConsumer(partitions, cluster=cluster) as consumer:
            consumer.seek_to_beginning()
            consumer.stop_at(consumer.end_offsets())
            return sorted(consumer, key=lambda message: (message.partition, message.offset))


def _digest(messages: list[Message[bytes | None, bytes | None]]) -> int:
    digest = 0
    for m in messages:
        digest = zlib.crc32(b"%d %d %r %r" % (m.partition, m.timestamp, m.key, m.value), digest)
    return digest


def _lake(spec: Spec) -> tuple[int, int]:
    """The rows, and the different offsets they come from, as another reader of the table sees
    them.
    """
    columns = ["_partition", "_offset"]
    if spec.sink.format == "iceberg":
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("default", type="sql", uri=spec.sink.catalog["uri"])
        rows = catalog.load_table(demo.TABLE).scan(selected_fields=tuple(columns)).to_arrow()
    else:
        import pyarrow.dataset

        found = pyarrow.dataset.dataset(str(spec.sink.path), partitioning="hive")
        rows = found.to_table(columns)
    return rows.num_rows, rows.group_by(["_partition", "_offset"]).aggregate([]).num_rows


def tables(counted: Counted, behind: dict[str, int]) -> str:
    sent = counted.sent
    rows: list[tuple[str, int | None, int | None, int | None, int | None]] = [
        ("sent", sent.good + sent.bad, sent.good, sent.bad, sent.cents),
        (f"topic {demo.TOPIC}", counted.orders, None, None, None),
        ("orders-revenue: windows", None, counted.windows, None, counted.cents),
        (f"orders-lake: {demo.lake_format()}", None, counted.lake, None, None),
        *([] if counted.as_one is None else [_as_one(counted.as_one)]),
        ("orders-lake: dead letters", None, None, counted.dead, None),
        ("orders-mirror: the other cluster", counted.mirror, None, None, None),
    ]
    lines = [f"\n{'':<34}{'RECORDS':>10}{'GOOD':>10}{'POISON':>8}{'REVENUE':>16}"]
    for what, records, good, bad, cents in rows:
        money = "" if cents is None else f"{cents / 100:,.2f}"
        line = f"{what:<34}{_number(records):>10}{_number(good):>10}{_number(bad):>8}{money:>16}"
        lines.append(line.rstrip())
    groups = table([{"group": name, "lag": lag} for name, lag in behind.items()], ["group", "lag"])
    return "\n".join(lines) + f"\n\n{groups}"


def _as_one(rows: int) -> tuple[str, None, int, None, None]:
    return ("orders-lake and topic, as one", None, rows, None, None)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def agreed(counted: Counted, behind: dict[str, int]) -> list[str]:
    """The counts that do not agree, one line each."""
    sent = counted.sent
    wanted = {
        f"records in topic {demo.TOPIC}": (counted.orders, sent.good + sent.bad),
        "orders in the windows of orders-revenue": (counted.windows, sent.good),
        "cents in the windows of orders-revenue": (counted.cents, sent.cents),
        "rows in the lake": (counted.lake, sent.good),
        "different orders in the lake": (counted.lake_offsets, sent.good),
        "rows of the lake and its topic as one": (
            sent.good if counted.as_one is None else counted.as_one,
            sent.good,
        ),
        "records in the mirror": (counted.mirror, sent.good + sent.bad),
        f"dead letters in {demo.DEAD}": (counted.dead, sent.bad),
        **{f"lag of {name}": (lag, 0) for name, lag in behind.items()},
    }
    wrong = [
        f"{what}: {found:,}, and {right:,} were expected"
        for what, (found, right) in wanted.items()
        if found != right
    ]
    if not counted.same:
        wrong.append("the mirror differs in keys, values, times or partitions")
    return wrong
