"""Runs a pipeline on Spark.

In: a spec. Out: rows where they belong, and a line of progress per round.
A stream and a lake are one query of Spark; with `errors`, a second one reads the same topics and
takes the bad rows away, so that any transform may follow the good ones.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.planning import client_options, ensure_topic, function, source_of
from barnabas.pipeline.spec import Spec
from barnabas.pipeline.starting import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipeline.copying import CopyTask
    from barnabas.pipeline.translation import Copied

Say = Callable[[str], None]


def run_spec(spec: Spec, *, say: Say = print, spark: "SparkSession | None" = None) -> None:
    """Until all there is now is done; with an interval, until it is stopped."""
    spark = spark or session(spec.run.master, name=spec.name, options=spec.run.options)
    try:
        if spec.kind == "mirror":
            _mirror(spec, spark, say)
        else:
            _queries(spec, spark, say)
    except KafkaError as problem:
        raise PipelineError(problem.detail) from None


# --- mirror ---


def _mirror(spec: Spec, spark: "SparkSession", say: Say) -> None:
    from barnabas.pipeline.mirror import Mirroring

    mirroring = Mirroring(
        client_options(spec, spec.source.servers),
        client_options(spec, spec.sink.servers),
        name=spec.source.group,
        topics=spec.source.topics,
        pattern=spec.source.pattern,
    )

    def copy(tasks: Sequence["CopyTask"]) -> Iterable["Copied"]:
        found: list[Copied] = spark.sparkContext.parallelize(tasks, len(tasks)).map(_copy).collect()
        return found

    while True:
        begun = time.monotonic()
        done = mirroring.round(copy)
        took_s = max(time.monotonic() - begun, 0.001)
        say(
            f"{spec.name}: {done.records} records, {done.size / took_s / 1e6:.1f} MB/s,"
            f" {done.groups} groups moved, {done.behind} behind"
        )
        for note in done.notes:
            say(f"{spec.name}: {note}")
        if done.behind:
            continue
        if spec.run.interval_ms is None:
            return
        time.sleep(max(spec.run.interval_ms / 1000 - took_s, 0))


def _copy(task: "CopyTask") -> "Copied":
    from barnabas.pipeline.copying import copy_range
    from barnabas.pipeline.errors import one_line

    return one_line(copy_range)(task)


# --- queries ---


def _queries(spec: Spec, spark: "SparkSession", say: Say) -> None:
    from barnabas.pipeline.rows import bad_rows, good_rows

    errors = spec.errors
    for topic in (errors.retry_topic, errors.dlq):
        if topic is not None:
            ensure_topic(spec.source.servers, topic)
    good = good_rows(spec, _read(spec, spark, spec.source.group))
    if spec.transform is not None:
        good = function(spec.transform)(good)
    queries = []
    try:
        if errors.dlq is not None:
            bad = bad_rows(spec, _read(spec, spark, f"{spec.source.group}.errors"))
            writer = bad.writeStream.format("barnabas").option("includeHeaders", "true")
            writer = writer.option("kafka.bootstrap.servers", spec.source.servers)
            queries.append(_started(spec, writer, "errors"))
        queries.append(_started(spec, _writer(spec, good), spec.kind))
        _await(spec, spark, queries, say)
    finally:
        for query in queries:
            query.stop()


def _read(spec: Spec, spark: "SparkSession", group: str) -> Any:
    given = {**source_of(spec), "group.id": group}
    retry = spec.errors.retry_topic
    if retry is not None:
        if "subscribe" in given:
            given["subscribe"] += f",{retry}"
        else:
            import re

            given["subscribePattern"] = f"({given['subscribePattern']})|^{re.escape(retry)}$"
        if "schemaRegistry" in given:
            given.setdefault("valueSubject", f"{spec.source.topics[0]}-value")
    return spark.readStream.format("barnabas").options(**given).load()


def _writer(spec: Spec, rows: Any) -> Any:
    sink = spec.sink
    if spec.kind == "lake":
        from barnabas.pipeline.lake import lake_writer

        return lake_writer(spec, rows)
    writer = rows.writeStream.format(sink.format).outputMode(sink.mode).options(**sink.options)
    if sink.format == "barnabas":
        writer = writer.option("kafka.bootstrap.servers", sink.servers)
        if sink.topic is not None:
            writer = writer.option("topic", sink.topic)
    elif sink.format == "parquet":
        writer = writer.option("path", sink.path)
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
    return writer


def _started(spec: Spec, writer: Any, what: str) -> Any:
    writer = writer.queryName(f"{spec.name}.{what}")
    writer = writer.option("checkpointLocation", f"{spec.run.checkpoint}/{what}")
    if spec.run.interval_ms is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{spec.run.interval_ms} milliseconds").start()


def _await(spec: Spec, spark: "SparkSession", queries: list[Any], say: Say) -> None:
    """Until all have ended, or one has failed."""
    told = dict.fromkeys(range(len(queries)), -1)
    while True:
        running = [query for query in queries if query.isActive]
        for number, query in enumerate(queries):
            progress = query.lastProgress
            if progress is not None and progress.batchId > told[number] and progress.numInputRows:
                told[number] = progress.batchId
                say(
                    f"{query.name}: batch {progress.batchId}, {progress.numInputRows} rows,"
                    f" {progress.processedRowsPerSecond or 0:.0f} rows/s"
                )
            if not query.isActive:
                query.awaitTermination()  # raises what it failed of
        if not running:
            return
        running[0].awaitTermination(0.5)
