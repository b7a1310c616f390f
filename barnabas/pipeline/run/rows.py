"""Rows as a pipeline's functions and tables see them, and the handling of bad rows.

In: the rows of `format("barnabas")`, with headers. Out: good rows: the columns of the value, or
`key` and `value`, with `_topic`, `_partition`, `_offset`, `_ts`; bad rows: records for the retry
topic or the dead-letter topic, with the headers that `barnabas dlq` reads. The time of such a
record is the time of writing: with the original time, retention could delete it at once.
Always: a row is good or bad; a bad row goes to exactly one of the two topics. A row of the retry
topic has the origin and time of the original record.
"""

from typing import TYPE_CHECKING, Any

from barnabas.client.workers import dead_letter_headers as header_names
from barnabas.pipeline.run.spec import LATEST, Spec
from barnabas.pipeline.spark.batch_identity import BatchIdentity
from barnabas.pipeline.spark.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELETED = "_deleted"  # of a row whose record has no value; such a row is not in a table
_TOPIC = r"\A[a-zA-Z0-9._-]{1,249}\z"
_NUMBER = r"\A[0-9]{1,18}\z"
_TIME = r"\A-?[0-9]{1,18}\z"  # Kafka's records may have negative times
_PATTERNS = {header_names.TOPIC: _TOPIC, header_names.TIMESTAMP: _TIME}
# Years 1 to 9999.
_TIME_MS_MIN, _TIME_MS_MAX = -62_135_596_800_000, 253_402_300_799_999


def good_rows(spec: Spec, rows: "DataFrame") -> "DataFrame":
    """The rows that could be read. Without a dead-letter topic, a bad row ends the query."""
    from pyspark.sql import functions as f

    data: list[Any] = [f.col("key"), f.col("value")]
    if spec.source.format != "bytes":
        good = f.col("error").isNull()
        if spec.errors.dlq is None:
            said = f.format_string(
                "%s-%d, offset %d: %s; set errors.dlq to continue without such rows",
                "topic", "partition", "offset", "error",
            )  # fmt: skip
            good = f.when(good, True).otherwise(f.raise_error(said).cast("boolean"))
        rows = rows.where(good)
        data = [f.col("data.*")]
    retry = spec.errors.retry_topic
    known = places(retry)
    if spec.sink.keep == LATEST:
        data += [] if spec.source.format == "bytes" else [f.col("key").alias("_key")]
        known.append(f.col("value").isNull().alias(DELETED))
    return rows.select(*data, *known, _time(retry).alias("_ts"))


def places(retry: str | None) -> list[Any]:
    """The columns that say where a record comes from; of the retry topic: the original record."""
    origin = {
        "_topic": (header_names.TOPIC, "topic", "string"),
        "_partition": (header_names.PARTITION, "partition", "int"),
        "_offset": (header_names.OFFSET, "offset", "bigint"),
    }
    return [
        _first_known(retry, header, column).try_cast(type_).alias(name)
        for name, (header, column, type_) in origin.items()
    ]


def rows_from(rows: "DataFrame", identity: BatchIdentity, remaining: Offsets) -> "DataFrame":
    """The rows of a batch, as the source returns them, that its sink does not have."""
    from pyspark.sql import functions as f

    for at in sorted(identity.end):
        begin = remaining.get(at, identity.end[at])
        if begin > identity.start.get(at, 0):
            here = (f.col("topic") == at.topic) & (f.col("partition") == at.partition)
            rows = rows.where(~(here & (f.col("offset") < begin)))
    return rows


def _time(retry: str | None) -> "Column":
    """The time of the record, in the retry topic of the original one; null if it is no time of the
    calendar: programs read dates as four digits of a year, and fail at the whole table.
    """
    from pyspark.sql import functions as f

    own = f.unix_millis(f.col("timestamp"))
    if retry is None:
        return f.when(own.between(_TIME_MS_MIN, _TIME_MS_MAX), f.col("timestamp"))
    first = _header(retry, header_names.TIMESTAMP, own.cast("string")).try_cast("bigint")
    return f.when(first.between(_TIME_MS_MIN, _TIME_MS_MAX), f.timestamp_millis(first))


def bad_rows(spec: Spec, rows: "DataFrame", batch: str) -> "DataFrame":
    """The bad rows as records; the column `topic` names one of the two topics. `batch` names their
    batch.
    """
    from pyspark.sql import functions as f

    errors, retry = spec.errors, spec.errors.retry_topic
    before = _header(retry, header_names.ATTEMPTS, f.lit("0")).cast("bigint")
    attempts = f.least(before, f.lit(errors.retries)) + 1
    now_ms = f.unix_millis(f.current_timestamp()).cast("string")
    time_ms = f.unix_millis(f.col("timestamp")).cast("string")
    bad = rows.where(f.col("error").isNotNull()).withColumn("attempts", attempts)
    again = f.col("attempts") <= errors.retries
    trail: dict[str, Any] = {
        header_names.GROUP: f.lit(spec.source.group),
        header_names.TOPIC: _first_known(retry, header_names.TOPIC, "topic"),
        header_names.PARTITION: _first_known(retry, header_names.PARTITION, "partition"),
        header_names.OFFSET: _first_known(retry, header_names.OFFSET, "offset"),
        header_names.TIMESTAMP: _header(retry, header_names.TIMESTAMP, time_ms),
        header_names.CAUSE: f.substring("error", 1, header_names.CAUSE_SIZE_MAX),
        header_names.ATTEMPTS: f.col("attempts").cast("string"),
        header_names.ROUND: (f.col("attempts") - f.when(again, 0).otherwise(1)).cast("string"),
        header_names.FAILED_AT: now_ms,
        header_names.BATCH: f.lit(batch),
    }
    ours = f.array(
        *(
            f.struct(f.lit(name).alias("key"), f.encode(value, "UTF-8").alias("value"))
            for name, value in trail.items()
        )
    )
    none = f.expr("cast(array() as array<struct<key:string,value:binary>>)")
    kept = f.filter(
        f.coalesce(f.col("headers"), none), lambda h: ~h["key"].startswith(header_names.PREFIX)
    )
    return bad.select(
        f.when(again, f.lit(retry)).otherwise(f.lit(errors.dlq)).alias("topic"),
        "key",
        "value",
        f.concat(kept, ours).cast("array<struct<key:string,value:binary>>").alias("headers"),
    )


def _first_known(retry: str | None, header: str, column: str) -> "Column":
    from pyspark.sql import functions as f

    return _header(retry, header, f.col(column).cast("string"))


def _header(retry: str | None, name: str, otherwise: "Column") -> "Column":
    """The values in the headers of a retry row, if they are valid: any program may write there."""
    from pyspark.sql import functions as f

    if retry is None:
        return otherwise
    last = f"try_element_at(filter(headers, h -> h.key = '{name}'), -1).value"
    found = f.expr(f"cast({last} as string)")
    sound = found.rlike(_PATTERNS.get(name, _NUMBER))
    return f.coalesce(f.when((f.col("topic") == retry) & sound, found), otherwise)
