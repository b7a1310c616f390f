"""Rows as a pipeline's functions and tables see them, and what becomes of those that are bad.

In: what `format("barnabas")` gives, with headers. Out: good rows: the columns of the value, or
`key` and `value`, with `_topic`, `_partition`, `_offset`, `_ts`; bad rows: records for the retry
topic or the dead-letter topic, with the headers that `barnabas dlq` reads.
Always: a row is good or bad; a bad one goes to exactly one of the two topics. A row of the retry
topic has the origin and time of the record it began as.
"""

from typing import TYPE_CHECKING, Any

from barnabas.client.workers import letters
from barnabas.pipeline.run.spec import LATEST, Spec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELETED = "_deleted"  # of a row whose record has no value; not in a table
_TOPIC = r"\A[a-zA-Z0-9._-]{1,249}\z"
_NUMBER = r"\A[0-9]{1,18}\z"


def good_rows(spec: Spec, rows: "DataFrame") -> "DataFrame":
    """Those that could be read. Without a dead-letter topic, a bad one ends the query."""
    from pyspark.sql import functions as f

    data: list[Any] = [f.col("key"), f.col("value")]
    if spec.source.format != "bytes":
        good = f.col("error").isNull()
        if spec.errors.dlq is None:
            said = f.format_string(
                "%s-%d, offset %d: %s; set errors.dlq to go on without such rows",
                "topic", "partition", "offset", "error",
            )  # fmt: skip
            good = f.when(good, True).otherwise(f.raise_error(said).cast("boolean"))
        rows = rows.where(good)
        data = [f.col("data.*")]
    origin = {
        "_topic": (letters.TOPIC, "topic", "string"),
        "_partition": (letters.PARTITION, "partition", "int"),
        "_offset": (letters.OFFSET, "offset", "bigint"),
    }
    retry = spec.errors.retry_topic
    known: list[Any] = [
        _first_known(retry, header, column).try_cast(type_).alias(name)
        for name, (header, column, type_) in origin.items()
    ]
    if spec.sink.keep == LATEST:
        data += [] if spec.source.format == "bytes" else [f.col("key").alias("_key")]
        known.append(f.col("value").isNull().alias(DELETED))
    return rows.select(*data, *known, f.col("timestamp").alias("_ts"))


def bad_rows(spec: Spec, rows: "DataFrame", batch: str) -> "DataFrame":
    """As records; the column `topic` says of which of the two topics. `batch` names theirs."""
    from pyspark.sql import functions as f

    errors, retry = spec.errors, spec.errors.retry_topic
    before = _header(retry, letters.ATTEMPTS, f.lit("0")).cast("bigint")
    attempts = f.least(before, f.lit(errors.retries)) + 1
    now_ms = f.unix_millis(f.current_timestamp()).cast("string")
    time_ms = f.unix_millis(f.col("timestamp")).cast("string")
    bad = rows.where(f.col("error").isNotNull()).withColumn("attempts", attempts)
    again = f.col("attempts") <= errors.retries
    trail: dict[str, Any] = {
        letters.GROUP: f.lit(spec.source.group),
        letters.TOPIC: _first_known(retry, letters.TOPIC, "topic"),
        letters.PARTITION: _first_known(retry, letters.PARTITION, "partition"),
        letters.OFFSET: _first_known(retry, letters.OFFSET, "offset"),
        letters.TIMESTAMP: _header(retry, letters.TIMESTAMP, time_ms),
        letters.CAUSE: f.substring("error", 1, letters.CAUSE_SIZE_MAX),
        letters.ATTEMPTS: f.col("attempts").cast("string"),
        letters.ROUND: (f.col("attempts") - f.when(again, 0).otherwise(1)).cast("string"),
        letters.FAILED_AT: now_ms,
        letters.BATCH: f.lit(batch),
    }
    ours = f.array(
        *(
            f.struct(f.lit(name).alias("key"), f.encode(value, "UTF-8").alias("value"))
            for name, value in trail.items()
        )
    )
    none = f.expr("cast(array() as array<struct<key:string,value:binary>>)")
    kept = f.filter(
        f.coalesce(f.col("headers"), none), lambda h: ~h["key"].startswith(letters.PREFIX)
    )
    return bad.select(
        f.when(again, f.lit(retry)).otherwise(f.lit(errors.dlq)).alias("topic"),
        "key",
        "value",
        f.concat(kept, ours).cast("array<struct<key:string,value:binary>>").alias("headers"),
        "timestamp",
    )


def _first_known(retry: str | None, header: str, column: str) -> "Column":
    from pyspark.sql import functions as f

    return _header(retry, header, f.col(column).cast("string"))


def _header(retry: str | None, name: str, otherwise: "Column") -> "Column":
    """What a row of the retry topic says of itself, if it makes sense: anyone may write there."""
    from pyspark.sql import functions as f

    if retry is None:
        return otherwise
    last = f"try_element_at(filter(headers, h -> h.key = '{name}'), -1).value"
    found = f.expr(f"cast({last} as string)")
    sound = found.rlike(_TOPIC if name == letters.TOPIC else _NUMBER)
    return f.coalesce(f.when((f.col("topic") == retry) & sound, found), otherwise)
