"""Runs a pipeline on Spark.

In: a spec. Out: rows where they belong, and a Batch per batch or round (progress.py).
A stream and a lake are one query of Spark; with `errors`, a second one reads the same topics and
takes the bad rows away, so that any transform may follow the good ones.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.planning import client_options, ensure_topic, function, source_of
from barnabas.pipeline.progress import Batch, Progress
from barnabas.pipeline.queries import look_after
from barnabas.pipeline.spec import IDENTICAL, Spec
from barnabas.pipeline.starting import session
from barnabas.pipeline.stopping import Stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipeline.copying import CopyTask
    from barnabas.pipeline.translation import Copied

Say = Callable[[str], None]
_TOO_SLOW = "Python worker failed to connect back"
_STARTS_MAX = 5


def run_spec(
    spec: Spec,
    *,
    say: Say = print,
    spark: "SparkSession | None" = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> None:
    """Until all there is now is done; with an interval, until a stop is asked for.

    Without a `progress` to watch, `say` gets a line per batch.
    """
    if progress is None:
        progress = Progress()
        progress.watch(lambda batch: say(str(batch)) if batch.rows else None)
    spark = spark or session_of(spec)
    _activate(spark)
    try:
        if spec.kind == "mirror":
            _mirror(spec, spark, say, progress, stop or Stop())
        else:
            _again(lambda: _queries(spec, spark, progress, stop or Stop()), spec, say)
    except KafkaError as problem:
        raise PipelineError(problem.detail, problem.code) from None


def session_of(spec: Spec) -> "SparkSession":
    modules = [] if spec.transform is None else [spec.transform.partition(":")[0]]
    if spec.transform is not None:
        function(spec.transform)  # before Spark starts: it may be misspelt
    run = spec.run
    return session(run.master, name=spec.name, options=run.options, modules=modules)


def _activate(spark: "SparkSession") -> None:
    """In this thread. Spark looks for formats of Python in the active session, and in no other."""
    sessions = spark._get_j_spark_session_class(spark._jvm)
    sessions.setActiveSession(spark._jsparkSession)


# --- mirror ---


def _mirror(spec: Spec, spark: "SparkSession", say: Say, progress: Progress, stop: Stop) -> None:
    from barnabas.pipeline.mirror import Mirroring

    mirroring = Mirroring(
        client_options(spec, spec.source.servers),
        client_options(spec, spec.sink.servers),
        name=spec.source.group,
        topics=spec.source.topics,
        pattern=spec.source.pattern,
        identical=spec.sink.offsets == IDENTICAL,
    )

    def copy(tasks: Sequence["CopyTask"]) -> Iterable["Copied"]:
        found: list[Copied] = spark.sparkContext.parallelize(tasks, len(tasks)).map(_copy).collect()
        return found

    number = 0
    noted: list[str] = []
    while not stop.asked:
        begun = time.monotonic()
        done = mirroring.round(copy)
        took_ms = int((time.monotonic() - begun) * 1000)
        if done.records or number == 0:
            progress.batch(Batch(spec.name, number, done.records, took_ms, done.behind))
            number += 1
        for note in done.notes:
            if note not in noted:  # what is odd stays odd, and is told once
                say(f"{spec.name}: {note}")
        noted = done.notes
        if done.behind:
            continue
        if spec.run.interval_ms is None:
            return
        stop.wait(max(spec.run.interval_ms - took_ms, 0) / 1000)


def _copy(task: "CopyTask") -> "Copied":
    from barnabas.pipeline.copying import copy_range
    from barnabas.pipeline.errors import one_line

    return one_line(copy_range)(task)


# --- queries ---


def _again(call: Callable[[], None], spec: Spec, say: Say) -> None:
    """Spark gives a process of Python ten seconds to start, which a busy machine may not."""
    for left in reversed(range(_STARTS_MAX)):
        try:
            return call()
        except Exception as problem:
            if not left or _TOO_SLOW not in str(problem):
                raise
            say(f"{spec.name}: a Python of Spark's did not start in time: once more")


def _queries(spec: Spec, spark: "SparkSession", progress: Progress, stop: Stop) -> None:
    from barnabas.pipeline.rows import bad_rows, good_rows

    errors = spec.errors
    for topic in (errors.retry_topic, errors.dlq):
        if topic is not None:
            ensure_topic(spec.source.servers, topic)
    good = good_rows(spec, _read(spec, spark, spec.source.group))
    if spec.transform is not None:
        good = _transformed(spec.transform, good)
    queries = []
    try:
        if errors.dlq is not None:
            bad = bad_rows(spec, _read(spec, spark, f"{spec.source.group}.errors"))
            writer = bad.writeStream.format("barnabas").option("includeHeaders", "true")
            writer = writer.option("kafka.bootstrap.servers", spec.source.servers)
            queries.append(_started(spec, writer, "errors"))
        queries.append(_started(spec, _writer(spec, good), spec.kind))
        look_after(queries, progress, stop)
    finally:
        for query in queries:
            query.stop()


def _transformed(name: str, rows: Any) -> Any:
    """By the user's function, whose mistakes are told with the line they are in."""
    from pyspark.errors import PySparkException

    call = function(name)
    try:
        found = call(rows)
    except (PipelineError, PySparkException):
        raise
    except Exception as problem:
        where = problem.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        at = "" if where is None else f", {where.tb_frame.f_code.co_filename}:{where.tb_lineno}"
        said = f"{type(problem).__name__}: {problem}"
        raise PipelineError(f"transform: {name!r} failed: {said}{at}") from problem
    if not hasattr(found, "writeStream"):
        raise PipelineError(
            f"transform: {name!r} returned {type(found).__name__}: return a DataFrame"
        )
    return found


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
    if sink.format == "barnabas" and sink.mode != "append":
        return _rewriter(spec, rows)
    writer = rows.writeStream.format(sink.format).outputMode(sink.mode).options(**sink.options)
    if sink.format == "barnabas":
        writer = writer.options(**_topic(spec))
    elif sink.format == "parquet":
        writer = writer.option("path", sink.path)
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
    return writer


def _rewriter(spec: Spec, rows: Any) -> Any:
    """Spark lets sinks of Python append only; a topic takes rows that replace others as well."""
    options = {**spec.sink.options, **_topic(spec)}

    def write(batch: Any, number: int) -> None:
        batch.write.format("barnabas").options(**options).mode("append").save()

    return rows.writeStream.outputMode(spec.sink.mode).foreachBatch(write)


def _topic(spec: Spec) -> dict[str, str]:
    found = {"kafka.bootstrap.servers": spec.sink.servers}
    return found if spec.sink.topic is None else {**found, "topic": spec.sink.topic}


def _started(spec: Spec, writer: Any, what: str) -> Any:
    writer = writer.queryName(f"{spec.name}.{what}")
    writer = writer.option("checkpointLocation", f"{spec.run.checkpoint}/{what}")
    if spec.run.interval_ms is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{spec.run.interval_ms} milliseconds").start()
