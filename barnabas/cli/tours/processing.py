"""Chapters: compaction; the four ways to process; delivery guarantees; pipelines."""

import asyncio
import sqlite3
from typing import Any

from barnabas.cli.tours.members import TourMember
from barnabas.cli.tours.stage import WAIT_S, Chapter, TourStage
from barnabas.cli.tours.worker_models import show_threads
from barnabas.client.blocking.consumer import Consumer
from barnabas.client.blocking.partition_consumer import PartitionConsumer
from barnabas.client.blocking.producer import Producer
from barnabas.client.workers.parallel import parallel
from barnabas.client.workers.policy import Retry

ORDERS = 10


def _compaction(stage: TourStage) -> None:
    kafka = stage.kafka
    options = {
        "cleanup.policy": "compact",
        "segment.ms": 1_000,
        "min.cleanable.dirty.ratio": 0.01,
    }
    kafka.create_topic("prices", configs=options)
    for number in range(5):
        kafka.produce("prices", [str(number)], key="apple")
        kafka.produce("prices", [str(10 * number)], key="pear")
    kafka.produce("prices", [None], key="pear")
    kafka.clock.advance(seconds=5)
    kafka.produce("prices", ["1"], key="plum", timestamp=kafka.clock.wall_ms())
    kafka.clock.advance(minutes=1)
    stage.eventually(
        "only the newest value of a key stays",
        lambda: [r.value for r in kafka.records("prices") if r.key == b"apple"] == [b"4"],
    )
    stage.eventually(
        "a null value, a tombstone, deletes its key",
        lambda: [r.value for r in kafka.records("prices") if r.key == b"pear"] == [None],
    )
    stage.claim("offsets do not change", kafka.records("prices")[0].offset == 8)
    stage.command("topic", "describe", "prices")


def _models(stage: TourStage) -> None:
    show_threads(stage)
    kafka = stage.kafka
    kafka.create_topic("orders")
    kafka.produce("orders", [str(n) for n in range(50)])
    stage.tell("4 parallel: as many records at a time as you like, in a sliding window:")
    release, all_but_one, all_done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    done: list[int] = []
    windows: list[Any] = []

    async def handle(message: Any) -> None:
        if message.offset == 10:
            await release.wait()
        done.append(message.offset)
        if len(done) == 49:
            all_but_one.set()
        if len(done) == 50:
            all_done.set()

    worker = parallel("orders", group_id="w", order="none", window=100, commit_interval=0.05)(
        handle
    )

    async def run() -> None:
        running = asyncio.create_task(
            worker.serve(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
        )
        await asyncio.wait_for(all_but_one.wait(), WAIT_S)
        await asyncio.to_thread(
            lambda: kafka.wait_until(lambda: kafka.group("w").partitions[0].committed == 10, WAIT_S)
        )
        windows.extend(worker.windows())
        committed.append(await asyncio.to_thread(lambda: kafka.group("w").partitions[0].committed))
        release.set()
        await asyncio.wait_for(all_done.wait(), WAIT_S)
        worker.stop()
        await running

    committed: list[Any] = []
    asyncio.run(run())
    stage.tell(f"window: {windows[0]}")
    stage.claim(
        "record 10 hovers (悬停): 49 others are handled", len(done) == 50 and done[-1] == 10
    )
    stage.claim("only what is before it was committed", committed == [10])
    stage.claim(
        "the window starts at it, and says why",
        windows[0].start == 10 and windows[0].held[0].state == "running",
    )
    stage.eventually("then all is committed", lambda: kafka.lag("w") == 0)


def _letters(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("orders")
    kafka.produce("orders", ["good", "poison"])

    def handle(message: Any) -> None:
        if message.value == b"poison":
            raise ValueError("cannot read it")

    worker = parallel(
        "orders", group_id="w", retry=Retry(2, backoff=(0.01, 0.02)), dlq="orders.dlq"
    )(handle)

    async def run() -> None:
        running = asyncio.create_task(
            worker.serve(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
        )
        await asyncio.to_thread(lambda: kafka.wait_for_records("orders.dlq", 1, WAIT_S))
        worker.stop()
        await running

    asyncio.run(run())
    stage.command("dlq", "show", "orders.dlq")
    stage.claim("after its retries it is a dead letter", kafka.values("orders.dlq") == [b"poison"])


def _guarantees(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("orders")
    kafka.produce("orders", [str(n) for n in range(ORDERS)])
    stage.tell("at most once: commit first, then work. A crash in between loses records.")
    servers = kafka.bootstrap_servers
    read = _crash(servers, "at-most", commit_first=True)
    stage.claim("a record that was committed and not handled is lost", 5 not in read)
    stage.tell("at least once: work first, then commit. A crash in between repeats records.")
    read = _crash(servers, "at-least", commit_first=False)
    stage.claim("a record that was handled and not committed comes again", read.count(5) == 2)
    stage.tell("exactly once with one's own database: the offset in the same transaction.")
    database = sqlite3.connect(":memory:")
    database.executescript(
        "create table result(value text); create table place(offset int);"
        "insert into place values(0)"
    )
    for crash_at in (5, None):
        _into_database(servers, database, crash_at)
    values = [row[0] for row in database.execute("select value from result order by rowid")]
    database.close()
    stage.claim("each record is there once", values == [str(n) for n in range(ORDERS)])
    stage.tell("exactly once between topics: a transaction of Kafka.")
    with Producer(bootstrap_servers=servers, transactional_id="t") as producer:
        with producer.transaction():
            producer.send_nowait("paid", b"1")
        try:
            with producer.transaction():
                producer.send_nowait("paid", b"2")
                raise RuntimeError
        except RuntimeError:
            pass
    seen = [record.value for record in kafka.records("paid", committed_only=True)]
    stage.claim("readers of committed records see the first, not the aborted one", seen == [b"1"])


def _crash(servers: str, group: str, *, commit_first: bool) -> list[int]:
    """What was handled: once until a crash at record 5, and once more after it."""
    handled: list[int] = []
    for crash_at in (5, None):
        consumer = Consumer(
            "orders",
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        with consumer:
            offset = -1
            while offset < ORDERS - 1:
                message = consumer.getone(timeout=WAIT_S)
                offset = message.offset
                if commit_first:
                    consumer.commit(message)
                    if offset == crash_at:
                        break
                handled.append(offset)
                if offset == crash_at:
                    break
                if not commit_first:
                    consumer.commit(message)
    return handled


def _into_database(servers: str, database: sqlite3.Connection, crash_at: int | None) -> None:
    (place,) = database.execute("select offset from place").fetchone()
    with PartitionConsumer([("orders", 0)], bootstrap_servers=servers) as consumer:
        consumer.seek(("orders", 0), place)
        consumer.stop_at({("orders", 0): ORDERS})
        for message in consumer:
            if crash_at == message.offset:
                database.execute("insert into result values(?)", ((message.value or b"").decode(),))
                database.rollback()  # as a crash does
                return
            with database:
                database.execute("insert into result values(?)", ((message.value or b"").decode(),))
                database.execute("update place set offset = ?", (message.offset + 1,))


def _pipelines(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("orders", 3)
    stage.command("gen", "orders", "--to", "orders", "-c", "300", "--poison", "1/100")
    stage.claim("300 sample orders are written", len(kafka.records("orders")) == 300)
    groups = ("real-time", "offline", "mirror")
    members = [TourMember(kafka, group, group, "orders") for group in groups]
    try:
        stage.eventually(
            "three groups read the same records side by side: streams, a lake, a mirror",
            lambda: [len(each.read) for each in members] == [300, 300, 300],
        )
    finally:
        for each in members:
            each.stop()
    stage.tell("`barnabas demo` runs the three on Spark, and their counts agree.")


CHAPTERS = (
    Chapter(
        "Compaction (日志压缩)",
        "Of each key the newest value stays; a null deletes the key.",
        "barnabas/log/compaction, docs/LOG.md",
        _compaction,
    ),
    Chapter(
        "Four threading models and the sliding window (滑动窗口, 悬停)",
        "Commit only what is finished, in order, however many records run at a time.",
        "barnabas/client/workers/window, docs/WORKERS.md",
        _models,
    ),
    Chapter(
        "Retries and dead letters (重试队列, 死信队列)",
        "A record that fails is tried again, and then put aside, with its cause.",
        "barnabas/client/workers/dead_letter_headers.py, docs/WORKERS.md",
        _letters,
    ),
    Chapter(
        "At most, at least, exactly once (至多一次, 至少一次, 精确一次)",
        "The order of work and commit decides; a transaction makes one of them.",
        "docs/CONSUMERS.md, docs/TRANSACTIONS.md",
        _guarantees,
    ),
    Chapter(
        "Pipelines: real time, offline, another data centre (实时, 离线, 镜像)",
        "One topic, three groups.",
        "barnabas/pipeline, docs/PIPELINES.md",
        _pipelines,
    ),
)
