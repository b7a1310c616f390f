"""Part of the suite "spark": a mirror beside MirrorMaker 2, between the same two brokers.

Ours is the whole of a run on a Spark that is up: looking at the topics, planning, copying, noting.
MirrorMaker is a process of its own that has to start and warm up: what counts is its pace from
when a quarter is copied until all is.
"""

import time
from pathlib import Path
from typing import Any

from barnabas.client.blocking.admin import Admin
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.mirror.translation import TOPIC as STATE
from barnabas.pipeline.run.running import run_spec
from barnabas.pipeline.run.spec import parse
from bench.sides import Side
from tests.support.mirror_maker import running_mirror_maker

MB_PER_S = "MB/s"
SPARK, MIRROR_MAKER = "barnabas", "mirror-maker"
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


def _count(admin: Admin, topic: str, partitions: int) -> int:
    if topic not in admin.topics().topics:
        return 0
    places = [TopicPartition(topic, number) for number in range(partitions)]
    return sum(each.offset for each in admin.offsets(dict.fromkeys(places, -1)).values())
