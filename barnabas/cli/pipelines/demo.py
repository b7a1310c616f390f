"""The Spark part of `barnabas demo`: one topic, three pipelines, and counts that agree.

Two brokers, each its own cluster; a stream of orders into the first, some of them poison; revenue
in windows, a lake and a mirror, each its own consumer group. Orders are written while the pipelines
run; when all have been read, everything is counted again from the stored data.
"""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import click

from barnabas.cli import exits
from barnabas.cli.brokers.console_process import demo_console
from barnabas.cli.demo import broker, called, directory, steps, wait_for_interrupt
from barnabas.cli.looking.demo_readers import demo_readers
from barnabas.cli.pipelines.demo_counts import agreed, count, lags, tables
from barnabas.cli.pipelines.drawing import Drawing
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.producer import Producer
from barnabas.client.producer.batches import RecordMetadata
from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError, from_spark
from barnabas.pipeline.run import demo
from barnabas.pipeline.run.progress import Progress
from barnabas.pipeline.run.spec import Spec, load
from barnabas.pipeline.run.stopping import StopRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STREAM_S = 20.0  # how long orders flow
_PIECES_PER_S = 10
_LOOK_S = 0.4
_FIRST_S_MAX = 30.0
_DRAIN_S_MAX = 120.0
_QUIET = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


def tell(records: int, keep: bool) -> int:
    began = time.monotonic()
    with (
        directory() as where,
        broker(where, "broker") as (here, ready),
        broker(where, "mirror") as (there, ready_too),
        demo_console(here) as console,
        ExitStack() as shown,
    ):
        if console is not None:
            click.echo(f"✔ console    {console}")
        click.echo(f"✔ broker     {here} {ready}")
        click.echo(f"✔ another    {there} {ready_too}, a cluster of its own, to mirror to")
        with Admin({"bootstrap.servers": here, "client.id": "demo"}) as admin:
            admin.create_topic(demo.TOPIC, partitions=demo.PARTITIONS)
            admin.create_topic(demo.WINDOWS, configs={"cleanup.policy": "compact"})
        specs = _written(demo.specs(here, there, where), where)
        stream = Orders(here, records)
        stream.start()
        click.echo(
            f"✔ orders     {records:,} in {_STREAM_S:.0f} s, into {demo.PARTITIONS} partitions,"
            f" keyed by customer; 1 in {demo.POISON_EVERY} is poison"
        )
        as_one = ReadAsOne(f"{where}/orders-lake.yml", stream)
        if console is not None:  # something to look at
            shown.enter_context(demo_readers(here, demo.TOPIC))
        try:
            problem = _pipelines(specs, stream, here, as_one)
        finally:
            stream.cut_off.set()
            stream.join()
        if problem is not None:
            click.echo(f"✘ {problem}", err=True)
            return exits.FAILURE
        counted = count(here, there, specs["orders-lake"], stream.sent, as_one.rows)
        behind = lags(here, list(specs))
        click.echo(tables(counted, behind))
        wrong = agreed(counted, behind)
        for line in wrong:
            click.echo(f"✘ {line}", err=True)
        if wrong:
            return exits.FAILURE
        click.echo(f"All counts agree, after {time.monotonic() - began:.0f} s. To try next:\n")
        click.echo("\n".join(_next_here(here, where) if keep else _next()))
        if keep:
            wait_for_interrupt(console)
    return exits.OK


def _written(documents: dict[str, dict[str, object]], where: str) -> dict[str, Spec]:
    """As files, which a user could run as well. JSON is YAML."""
    found = {}
    for name, document in documents.items():
        path = Path(where, f"{name}.yml")
        path.write_text(json.dumps(document, indent=2) + "\n")
        found[name] = load(path)
    return found


# --- the stream of orders ---


@dataclass
class Sent:
    """The acknowledged orders."""

    good: int = 0
    bad: int = 0
    cents: int = 0


class Orders(Thread):
    """Writes orders evenly over some seconds."""

    def __init__(self, servers: str, records: int) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._records = records
        self.sent = Sent()
        self.cut_off = Event()
        self.problem: KafkaError | None = None

    def run(self) -> None:
        try:
            with Producer({"bootstrap.servers": self._servers, "client.id": "demo"}) as producer:
                self._stream(producer)
        except KafkaError as problem:
            self.problem = problem

    def _stream(self, producer: Producer) -> None:
        begun = time.monotonic()
        pieces = max(int(_STREAM_S * _PIECES_PER_S), 1)
        done = 0
        for piece in range(1, pieces + 1):
            until = self._records * piece // pieces
            for number in range(done, until):
                self._send(producer, number)
            done = until
            if self.cut_off.wait(max(begun + piece / _PIECES_PER_S - time.monotonic(), 0)):
                return

    def _send(self, producer: Producer, number: int) -> None:
        order = demo.order(number)

        def delivered(metadata: RecordMetadata | None, problem: KafkaError | None) -> None:
            if problem is not None:
                self.problem = problem
            elif order.cents is None:
                self.sent.bad += 1
            else:
                self.sent.good += 1
                self.sent.cents += order.cents

        producer.drain()
        producer.send_nowait(demo.TOPIC, order.value, key=order.key, callback=delivered)

    @property
    def flows(self) -> bool:
        return self.is_alive() and self.problem is None


# --- the pipelines ---


@dataclass
class Running:
    """One pipeline in a thread of its own; all share one Spark, as three would on a cluster."""

    spec: Spec
    progress: Progress = field(default_factory=Progress)
    stop: StopRequest = field(default_factory=StopRequest)
    problem: str | None = None
    thread: Thread | None = None

    def start(self, spark: "SparkSession") -> None:
        self.thread = Thread(target=self._run, args=(spark,), daemon=True)
        self.thread.start()

    def _run(self, spark: "SparkSession") -> None:
        from barnabas.pipeline.run.running import run_spec

        try:
            run_spec(
                self.spec,
                spark=spark,
                progress=self.progress,
                stop=self.stop,
                say=lambda line: None,
            )
        except PipelineError as problem:
            self.problem = f"{self.spec.name}: {problem}"
        except Exception as problem:
            self.problem = f"{self.spec.name}: {from_spark(problem) or repr(problem)}"

    def wait_for_batch(self) -> None:
        deadline = time.monotonic() + _FIRST_S_MAX
        while not self.progress.queries and self.problem is None and time.monotonic() < deadline:
            time.sleep(0.1)

    @property
    def line(self) -> str:
        rows = max((each.rows for each in self.progress.queries.values()), default=0)
        rate = max((each.last.rows_per_s for each in self.progress.queries.values()), default=0)
        return f"{self.spec.name:<16}{rows:>12,} read {rate:>10,.0f} rows/s"


@dataclass
class ReadAsOne:
    """Reads the lake and its topic as one table, once: when the last order is written, and the lake
    does not have all of them yet.
    """

    spec: str
    stream: Orders
    rows: int | None = None

    def read(self, spark: "SparkSession") -> None:
        if self.rows is None and demo.has_iceberg():
            found = spark.read.format("barnabas").option("lake", self.spec).load()
            self.rows = found.count()


def _pipelines(
    specs: dict[str, Spec], stream: Orders, servers: str, as_one: ReadAsOne
) -> str | None:
    """Run all three until they have read every order. What went wrong, if anything."""
    from barnabas.pipeline.run.session import session

    drawing = Drawing()
    drawing.draw(["  starting Spark ..."])
    begun = time.monotonic()
    spark = session("local[2]", name="barnabas demo", options=_QUIET)
    running = [Running(spec) for spec in specs.values()]
    try:
        drawing.clear()
        took_s = time.monotonic() - begun
        click.echo(f"✔ Spark      {spark.version}, in {took_s:.1f} s, no jar added")
        for each in running:
            # One after the other: each starts Python processes, and waits ten seconds for them.
            each.start(spark)
            drawing.draw([f"  starting {each.spec.name} ..."])
            each.wait_for_batch()
            drawing.clear()
            if each.problem is None:
                click.echo(f"✔ pipeline   {_WHAT[each.spec.name]}")
        problem = _watch(running, stream, servers, drawing, lambda: as_one.read(spark))
        for each in running:
            each.stop.ask()
        for each in running:
            assert each.thread is not None
            each.thread.join()
        return problem or next((each.problem for each in running if each.problem), None)
    finally:
        drawing.clear()
        spark.stop()


_WHAT = {
    "orders-revenue": "orders-revenue, in real time: windows of 10 s by country, to a topic",
    "orders-lake": f"orders-lake, offline: {demo.lake_format()}, each order once; poison to"
    " orders.dlq",
    "orders-mirror": "orders-mirror, to the other cluster, batch by batch as they are",
}


def _watch(
    running: list[Running],
    stream: Orders,
    servers: str,
    drawing: Drawing,
    all_written: Callable[[], None],
) -> str | None:
    """Until the three groups have read all there is. `all_written`: called when the last order is
    written.
    """
    groups = [each.spec.source.group for each in running]
    deadline = None
    while True:
        for each in running:
            if each.problem is not None:
                return each.problem
        if stream.problem is not None:
            return f"orders: {stream.problem.detail}"
        behind = lags(servers, groups)
        sent = stream.sent
        drawing.draw(
            [f"  {'orders':<16}{sent.good + sent.bad:>12,} written"]
            + [f"  {each.line} {behind[each.spec.name]:>9,} behind" for each in running]
        )
        if not stream.flows:
            deadline = deadline or time.monotonic() + _DRAIN_S_MAX
            all_written()
            if not any(behind.values()):
                return None
            if time.monotonic() > deadline:
                late = [name for name, lag in behind.items() if lag]
                return f"{', '.join(late)} did not catch up in {_DRAIN_S_MAX:.0f} s"
        time.sleep(_LOOK_S)


def _next() -> list[str]:
    barnabas = called("barnabas")
    return steps(
        (f"{barnabas} demo --keep", "the same, and the brokers stay for you to look at"),
        (f"{barnabas} up", "a broker on localhost:9092, for any Kafka client"),
        (f"{barnabas} pipeline run SPEC.yml", "a pipeline of yours: docs/PIPELINES.md"),
        ('spark.read.format("barnabas")', "topics as tables, in any Spark: docs/SPARK.md"),
    )


def _next_here(here: str, where: str) -> list[str]:
    barnabas = called("barnabas")
    look = f"import pyarrow.dataset as d; print(d.dataset('{where}/lake').head(5).to_pandas())"
    if demo.has_iceberg():
        look = (
            "from pyiceberg.catalog import load_catalog;"
            f" c = load_catalog('default', type='sql', uri='sqlite:///{where}/catalog.db');"
            f" print(c.load_table('{demo.TABLE}').scan(limit=5).to_pandas())"
        )
    return [
        f"  {barnabas} consume -b {here} {demo.WINDOWS} -o -7 -e -f '%s\\n'",
        f"  {barnabas} group describe -b {here} orders-lake",
        f"  {barnabas} dlq show -b {here} {demo.DEAD}",
        f"  {barnabas} pipeline dry-run {where}/orders-lake.yml",
        f'  {called("python")} -c "{look}"',
    ]
