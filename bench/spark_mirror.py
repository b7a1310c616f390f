"""Part of the suite "spark": a mirror beside MirrorMaker 2, between the same two brokers.

Ours is a whole run on a running Spark: reading the topics, planning, copying, writing the progress.
MirrorMaker is a process that has to start and warm up: its rate is measured from the moment when a
quarter is copied until everything is.
"""

import statistics
import time
from pathlib import Path
from typing import Any

from barnabas.client.blocking.admin import Admin
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.mirror.translation import TOPIC as STATE
from barnabas.pipeline.run.running import run_spec
from barnabas.pipeline.run.spec import parse
from bench.figures import Goal, Row
from bench.sides import DELETE_SOON, Side
from bench.spark_tasks import PARTITIONS, QUICK, fill
from bench.suite import Settings, say
from tests.process import running_broker
from tests.support.mirror_maker import running_mirror_maker

MB_PER_S = "MB/s"
SPARK, MIRROR_MAKER = "barnabas", "mirror-maker"
MIRRORED = 600_000  # of 1 KB
MIRROR_ROUNDS = 3
_WARM = 0.25
_TIMEOUT_S = 600


def copy_with_spark(spark: Any, source: Side, target: str, topic: str, size: int) -> float:
    """MB/s."""
    spec = parse({
        "name": "bench",
        "kind": "mirror",
        "source": {"servers": source.bootstrap_servers, "topics": [topic]},
        "sink": {"servers": target},
        "run": {"master": "local[2]"},
    })  # fmt: skip
    begun = time.perf_counter()
    run_spec(spec, spark=spark, say=lambda line: None)
    took = time.perf_counter() - begun
    with Admin({"bootstrap.servers": target}) as admin:
        for each in (topic, STATE):
            admin.delete_topic(each)
    return size / took / 1e6


def copy_with_mirror_maker(
    directory: Path, source: Side, target: str, topic: str, partitions: int, size: int, rows: int
) -> float:
    """MB/s."""
    alias = f"s{time.time_ns()}"
    copy = f"{alias}.{topic}"
    with (
        running_mirror_maker(
            directory / alias, source.bootstrap_servers, target, alias=alias, topics=topic, tasks=2
        ),
        Admin({"bootstrap.servers": target}) as admin,
    ):
        warm_at, warm_rows = 0.0, 0
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            there = _count(admin, copy, partitions)
            now = time.perf_counter()
            if not warm_at and there >= rows * _WARM:
                warm_at, warm_rows = now, there
            if there >= rows:
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"MirrorMaker copied {there} of {rows} in {_TIMEOUT_S} s")
            time.sleep(0.05)
    with Admin({"bootstrap.servers": target}) as admin:
        for each in admin.topics().topics:
            if alias in each or each in ("heartbeats", "mm2-offset-syncs"):
                admin.delete_topic(each)
    return size * (rows - warm_rows) / rows / (now - warm_at) / 1e6


def measured_mirrors(settings: Settings, spark: Any, source: Side, base: Path) -> list[Row]:
    """Between two Barnabas brokers; fewer rounds, because each starts MirrorMaker again."""
    size, rows = 1000, int(MIRRORED * (QUICK if settings.quick else 1))
    topic = "spark-mirrored"
    fill(source, topic, PARTITIONS, size, rows, "none")
    found: dict[str, list[float]] = {SPARK: [], MIRROR_MAKER: []}
    with running_broker(base / "mirror-target", DELETE_SOON) as target:
        there = target.bootstrap_servers
        for number in range(MIRROR_ROUNDS + 1):
            say(f"round {number} of {MIRROR_ROUNDS}" if number else "warm-up")
            ours = copy_with_spark(spark, source, there, topic, size * rows)
            say(f"  {SPARK:12} mirror, 1 KB  {ours:,.4g} {MB_PER_S}")
            if not number:
                continue
            theirs = copy_with_mirror_maker(
                base, source, there, topic, PARTITIONS, size * rows, rows
            )
            say(f"  {MIRROR_MAKER:12} mirror, 1 KB  {theirs:,.4g} {MB_PER_S}")
            found[SPARK].append(ours)
            found[MIRROR_MAKER].append(theirs)
    mine, others = found.values()
    ratios = [a / b for a, b in zip(mine, others, strict=True)]
    ours, theirs, ratio = (statistics.median(values) for values in (mine, others, ratios))
    return [Row("mirror, 1 KB", MB_PER_S, ours, theirs, ratio, Goal(least=3.0))]


def _count(admin: Admin, topic: str, partitions: int) -> int:
    if topic not in admin.topics().topics:
        return 0
    places = [TopicPartition(topic, number) for number in range(partitions)]
    return sum(each.offset for each in admin.offsets(dict.fromkeys(places, -1)).values())
