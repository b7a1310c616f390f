"""Runs a pipeline on Spark.

In: a spec. Out: rows in the sink, and a Batch per batch or round (progress.py).
A lake is one query of Spark, which writes good rows and bad ones. A stream is one query as well;
with `errors`, a second query reads the same topics and writes the bad rows, so that any transform
may follow the good rows. The stream reads only what the second query has read: a row that is bad
for the stream was bad for the second query, and is in one of its topics, even if the spec was
changed in between.
"""

import json
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError, from_spark, one_line, without_remedy
from barnabas.pipeline.run.dead_letter_topics import ensure_letter_topics, letter_client
from barnabas.pipeline.run.dead_letters import BadRowWriter
from barnabas.pipeline.run.outage import Outage
from barnabas.pipeline.run.progress import BatchProgress, Progress
from barnabas.pipeline.run.queries import begun, look_after
from barnabas.pipeline.run.session import session
from barnabas.pipeline.run.spec import Spec
from barnabas.pipeline.run.spec_source import mirroring_of, source_of
from barnabas.pipeline.run.stopping import StopRequest
from barnabas.pipeline.run.topic_sink import delivery_line, topic_writer
from barnabas.pipeline.run.transform import error_line, function
from barnabas.pipeline.spark.batch_identity import BatchIdentity
from barnabas.pipeline.spark.brokers import Brokers
from barnabas.pipeline.spark.checkpoint import Checkpoint
from barnabas.pipeline.spark.files import directory_of, ensure_directory
from barnabas.pipeline.spark.offsets import Offsets, to_json
from barnabas.pipeline.spark.options import BEGAN, TOPIC_IDS, source_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipeline.mirror.copying import CopyTask
    from barnabas.pipeline.mirror.translation import Copied

Say = Callable[[str], None]
_TOO_SLOW = "Python worker failed to connect back"
_STARTS_MAX = 5


def run_spec(
    spec: Spec,
    *,
    say: Say = print,
    spark: "SparkSession | None" = None,
    progress: Progress | None = None,
    stop: StopRequest | None = None,
) -> None:
    """Run until all current records are processed; with an interval, until a stop is requested.

    Without a `progress` to watch, `say` gets a line per batch.
    """
    if progress is None:
        progress = Progress()
        progress.watch(lambda batch: say(str(batch)) if batch.rows else None)
    started = spark or session_of(spec)
    _activate(started)
    stop = stop or StopRequest()
    outage = Outage(spec.run.give_up_ms)
    progress.watch(lambda batch: outage.progressed())

    def attempt() -> None:
        if spec.kind == "mirror":
            _mirror(spec, started, say, progress, stop, outage)
        else:
            _again(lambda: _queries(spec, started, progress, stop, outage, say), spec, say, stop)

    try:
        _through_outages(attempt, spec, outage, say, stop, progress)
    except KafkaError as problem:
        raise PipelineError(problem.detail, problem.code) from None


def _through_outages(
    attempt: Callable[[], None],
    spec: Spec,
    outage: Outage,
    say: Say,
    stop: StopRequest,
    progress: Progress,
) -> None:
    """A pipeline that runs until it is stopped waits for brokers that are away."""
    while True:
        began_ms = _now_ms()
        try:
            return attempt()
        except Exception as problem:
            wait_ms = outage.wait_ms(problem, began_ms, _now_ms())
            if spec.run.interval_ms is None or wait_ms is None:
                raise
            said = problem.detail if isinstance(problem, KafkaError) else from_spark(problem)
            why = without_remedy(str(said or problem))
            say(f"{spec.name}: {why}; trying again in {wait_ms // 1000} s")
            progress.retrying = why
            progress.alive()
            if stop.wait(wait_ms / 1000):
                return


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


def session_of(spec: Spec) -> "SparkSession":
    modules = [] if spec.transform is None else [spec.transform.partition(":")[0]]
    if spec.transform is not None:
        function(spec.transform)  # before Spark starts: the name may be misspelt
    run = spec.run
    return session(run.master, name=spec.name, options=run.options, modules=modules)


def _activate(spark: "SparkSession") -> None:
    """Makes the session active in this thread: Spark looks for Python formats only in the active
    session.
    """
    sessions = spark._get_j_spark_session_class(spark._jvm)
    sessions.setActiveSession(spark._jsparkSession)


# --- mirror ---


def _mirror(
    spec: Spec,
    spark: "SparkSession",
    say: Say,
    progress: Progress,
    stop: StopRequest,
    outage: Outage,
) -> None:
    mirroring = mirroring_of(spec)
    outage.reached()
    progress.attempt_began()

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
            progress.batch(BatchProgress(spec.name, number, done.records, took_ms, done.behind))
            number += 1
        progress.triggered(spec.name, _now_ms())
        progress.alive()
        for note in done.notes:
            if note not in noted:  # each warning is logged once
                say(f"{spec.name}: {note}")
        noted = done.notes
        if done.behind:
            continue
        if spec.run.interval_ms is None:
            return
        stop.wait(max(spec.run.interval_ms - took_ms, 0) / 1000)


def _copy(task: "CopyTask") -> "Copied":
    from pyspark import TaskContext

    from barnabas.pipeline.mirror.copying import copy_range

    context = TaskContext.get()
    return one_line(copy_range)(task, 0 if context is None else context.attemptNumber())


# --- queries ---


def _again(call: Callable[[], None], spec: Spec, say: Say, stop: StopRequest) -> None:
    """Starts a query. Spark gives a Python process ten seconds to start; on a busy machine it may
    need more. Pipelines that failed together do not try again together.
    """
    for tried in range(_STARTS_MAX):
        try:
            return call()
        except Exception as problem:
            if tried == _STARTS_MAX - 1 or _TOO_SLOW not in str(problem):
                raise
            wait_s = random.uniform(1, 2 << tried)
            say(
                f"{spec.name}: a Python worker of Spark did not start in time: trying again in"
                f" {wait_s:.0f} s"
            )
            if stop.wait(wait_s):
                return None


def _queries(
    spec: Spec,
    spark: "SparkSession",
    progress: Progress,
    stop: StopRequest,
    outage: Outage,
    say: Say,
) -> None:
    from barnabas.pipeline.lake.lake import lake_writer, local_checkpoint
    from barnabas.pipeline.run.rows import good_rows

    spec, publish = local_checkpoint(spec)
    limits = ensure_letter_topics(spec)
    given = {**_source(spec), "group.id": spec.source.group}
    brokers, checkpoint = _checkpoint(spec, spark, given)
    outage.reached()
    progress.attempt_began()
    given[TOPIC_IDS] = json.dumps(checkpoint.topic_ids)
    if checkpoint.began is not None:
        given[BEGAN] = json.dumps(to_json(checkpoint.began))

    def identify(query: str, number: int) -> BatchIdentity:
        what = "lake" if spec.kind == "lake" else "errors"
        return checkpoint.identity(what, query, number, brokers.topic_ids_now)

    letters = None
    if spec.errors.dlq is not None:
        letters = BadRowWriter(spec, letter_client(spec), limits, identify)
    queries: list[Any] = []
    phases_ms: dict[str, int] = {}
    passes = 1
    try:
        if spec.kind == "lake":
            rows = _read(spark, given)
            writer = lake_writer(spec, rows, identify, letters, publish, phases_ms)
            passes = 1 if letters is None else 2  # for bad rows, then for good ones
        else:
            if letters is not None:
                queries.append(begun(lambda: _errors(spec, spark, given, letters), stop))
                if spec.run.interval_ms is None:
                    look_after(queries, progress, stop)
                    queries.clear()
                    if stop.asked:
                        return
                given["behindGroup"] = _errors_group(spec)
            good = good_rows(spec, _read(spark, given))
            if spec.transform is not None:
                good = _transformed(spec.transform, good)
            if spec.sink.format == "barnabas":
                say(f"{spec.name}: {delivery_line(spec)}")
            writer = _writer(spec, good)
        queries.append(begun(lambda: _started(spec, writer, spec.kind, spark), stop))
        look_after(queries, progress, stop, passes=passes, phases_ms=phases_ms)
    finally:
        for query in queries:
            query.stop()
        if letters is not None:
            letters.close()


def _checkpoint(
    spec: Spec, spark: "SparkSession", given: dict[str, str]
) -> tuple[Brokers, Checkpoint]:
    """Checks that the checkpoint belongs to this pipeline and to these topics."""
    options = source_options(given, streaming=True)
    brokers = Brokers(options)
    partitions = brokers.partitions()
    directory = ensure_directory(spark, str(spec.run.checkpoint), "run.checkpoint")
    if spec.sink.path is not None and spec.sink.format == "parquet":
        ensure_directory(spark, str(spec.sink.path), "sink.path")
    found = Checkpoint(directory)

    def begin() -> Offsets:
        from barnabas.pipeline.lake.lake import table_offsets

        starting = brokers.resolve(options.starting, partitions, "starting")
        return table_offsets(spec, starting, brokers.topic_ids)

    found.claim(
        spec.name,
        brokers.topic_ids,
        begin,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    found.mend()
    return brokers, found


def _errors(spec: Spec, spark: "SparkSession", given: dict[str, str], letters: BadRowWriter) -> Any:
    """The query that writes the bad rows of a stream."""
    rows = _read(spark, {**given, "group.id": _errors_group(spec)})
    writer = rows.writeStream.foreachBatch(one_line(letters.write))
    return _started(spec, writer, "errors", spark)


def _errors_group(spec: Spec) -> str:
    return f"{spec.source.group}.errors"


def _transformed(name: str, rows: Any) -> Any:
    """Applies the user's function. Its errors are reported with the line where they occur."""
    from pyspark.errors import PySparkException

    call = function(name)
    try:
        found = call(rows)
    except (PipelineError, PySparkException):
        raise
    except Exception as problem:
        raise PipelineError(f"transform: {name!r} failed: {error_line(problem)}") from problem
    if not hasattr(found, "writeStream"):
        raise PipelineError(
            f"transform: {name!r} returned {type(found).__name__}: return a DataFrame"
        )
    return found


def _source(spec: Spec) -> dict[str, str]:
    """The options of the source, which includes the retry topic."""
    given = source_of(spec)
    # Rows of the retry topic are written in transactions.
    given.setdefault("kafka.isolation.level", "read_committed")
    retry = spec.errors.retry_topic
    if retry is not None:
        if "subscribe" in given:
            given["subscribe"] += f",{retry}"
        else:
            import re

            given["subscribePattern"] = f"({given['subscribePattern']})|^{re.escape(retry)}$"
        if "schemaRegistry" in given:
            given.setdefault("valueSubject", f"{spec.source.topics[0]}-value")
    return given


def _read(spark: "SparkSession", given: dict[str, str]) -> Any:
    return spark.readStream.format("barnabas").options(**given).load()


def _writer(spec: Spec, rows: Any) -> Any:
    sink = spec.sink
    spark = rows.sparkSession
    if sink.format == "barnabas":
        directory = directory_of(spark, str(spec.run.checkpoint))
        return topic_writer(spec, rows, f"{directory.uri}/{spec.kind}")
    writer = rows.writeStream.format(sink.format).outputMode(sink.mode).options(**sink.options)
    if sink.format == "parquet":
        writer = writer.option("path", directory_of(spark, str(sink.path)).uri)
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
    return writer


def _started(spec: Spec, writer: Any, what: str, spark: "SparkSession") -> Any:
    writer = writer.queryName(f"{spec.name}.{what}")
    directory = directory_of(spark, str(spec.run.checkpoint))
    writer = writer.option("checkpointLocation", f"{directory.uri}/{what}")
    if spec.run.interval_ms is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{spec.run.interval_ms} milliseconds").start()
