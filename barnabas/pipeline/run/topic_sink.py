"""The topic that a stream writes to, exactly once or at least once.

In: a spec, the rows. Out: a writer of Spark that is not started yet.
Exactly once on Barnabas, unless the spec says otherwise. On Apache Kafka at least once, unless the
spec asks for more: there, exactly once has limits, and shuffles the rows.
"""

from typing import Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.dead_letters import query_of
from barnabas.pipeline.run.spec import BY_BROKERS, EXACTLY_ONCE, Spec
from barnabas.pipeline.spark.brokers import opened
from barnabas.pipeline.spark.options import sink_options
from barnabas.pipeline.spark.placing import by_target_partition
from barnabas.pipeline.spark.planned_batch import planned_batch
from barnabas.pipeline.spark.transaction_calls import has_groups

_SPECULATION = "spark.speculation"


def topic_writer(spec: Spec, rows: Any, checkpoint: str) -> Any:
    """`checkpoint`: of the query."""
    sink = spec.sink
    options = {"kafka.bootstrap.servers": sink.servers, **sink.options}
    if sink.topic is not None:
        options["topic"] = sink.topic
    if is_once(spec):
        options["exactlyOnce"] = "true"
        if spec.delivery != BY_BROKERS and not _has_groups(spec):
            _check_speculation(rows)
            rows = by_target_partition(rows, options)
    if sink.mode != "append":
        return _rewriter(spec, rows, options, checkpoint)
    return rows.writeStream.format("barnabas").outputMode("append").options(**options)


def is_once(spec: Spec) -> bool:
    """Whether the rows of a stream are written exactly once."""
    if spec.delivery == BY_BROKERS:
        return _has_groups(spec)
    return spec.sink.format == "barnabas" and spec.delivery == EXACTLY_ONCE


def delivery_line(spec: Spec) -> str:
    """What a run says about its sink."""
    where = "topics of the rows" if spec.sink.topic is None else f"topic {spec.sink.topic}"
    if is_once(spec):
        return f"writes to the {where} exactly once: its readers should use read_committed"
    why = ": the brokers are not Barnabas, and sink.exactly_once is not set"
    return f"writes to the {where} at least once{why if spec.delivery == BY_BROKERS else ''}"


def _has_groups(spec: Spec) -> bool:
    options = {"kafka.bootstrap.servers": spec.sink.servers, **spec.sink.options}
    return has_groups(opened(sink_options(options).client))


def _rewriter(spec: Spec, rows: Any, options: dict[str, str], checkpoint: str) -> Any:
    """Spark allows only append mode for Python sinks; a topic accepts updated rows as well."""

    def write(batch: Any, number: int) -> None:
        numbered = {}
        if "exactlyOnce" in options:
            numbered = {
                "txnAppId": query_of(batch.sparkSession),
                "txnVersion": str(number),
                "barnabas.batch.identity": planned_batch(checkpoint, number).identity,
            }
        writer = batch.write.format("barnabas").options(**options, **numbered)
        writer.mode("append").save()

    return rows.writeStream.outputMode(spec.sink.mode).foreachBatch(write)


def _check_speculation(rows: Any) -> None:
    conf = rows.sparkSession.sparkContext.getConf()
    if conf.get(_SPECULATION, "false") == "true":
        raise PipelineError(
            f"{_SPECULATION} is true: on Apache Kafka, sink.exactly_once cannot run a task twice."
            " Set it to false in run.options"
        )
