"""Records of a topic as rows of its table: what pipeline/run/rows.py does with Spark, with Arrow.

In: Arrow batches of the source, with headers and, if values have a type, `data` and `error`. Out:
batches with the columns of the table.
Always: the same rows as the pipeline writes: without bad rows, with the place and time of the
original record if a record comes from the retry topic.
"""

from typing import TYPE_CHECKING, Any

from barnabas.client.workers import dead_letter_headers as header_names
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.data_files import as_schema
from barnabas.pipeline.run.spec import Spec

if TYPE_CHECKING:
    import pyarrow

# Years 1 to 9999, in microseconds.
_TIME_MIN, _TIME_MAX = -62_135_596_800_000_000, 253_402_300_799_999_999
_PLACE = {"_topic": "topic", "_partition": "partition", "_offset": "offset"}
_HEADERS = {
    "_topic": (header_names.TOPIC, str),
    "_partition": (header_names.PARTITION, int),
    "_offset": (header_names.OFFSET, int),
}


def log_rows(
    spec: Spec, batch: "pyarrow.RecordBatch", schema: "pyarrow.Schema"
) -> "pyarrow.RecordBatch":
    import pyarrow

    columns: dict[str, Any] = {}
    if spec.source.format == "bytes":
        columns = {"key": batch.column("key"), "value": batch.column("value")}
    else:
        batch = _good(spec, batch)
        data = batch.column("data")
        columns = dict(zip([field.name for field in data.type], data.flatten(), strict=True))
    columns |= {name: batch.column(source) for name, source in _PLACE.items()}
    columns["_ts"] = batch.column("timestamp")
    retry = spec.errors.retry_topic
    if retry is not None and batch.num_rows and batch.column("topic")[0].as_py() == retry:
        columns |= _origins(batch)
    columns["_ts"] = _calendar(columns["_ts"])
    if "date" in schema.names and "date" not in columns:
        columns["date"] = columns["_ts"].cast(pyarrow.date32())
    found = pyarrow.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return as_schema(found, schema)


def _good(spec: Spec, batch: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
    from pyarrow import compute

    errors = batch.column("error")
    if errors.null_count == batch.num_rows:
        return batch
    if spec.errors.dlq is None:
        row = next(n for n, error in enumerate(errors.to_pylist()) if error is not None)
        topic, partition, offset = (batch.column(name)[row].as_py() for name in _PLACE.values())
        raise PipelineError(f"{topic}-{partition}, offset {offset}: {errors[row].as_py()}")
    return batch.filter(compute.is_null(errors))


def _origins(batch: "pyarrow.RecordBatch") -> dict[str, Any]:
    """The places and times of the original records. A header that is not valid is not used: any
    program may write there.
    """
    import pyarrow
    from pyarrow import compute

    places: dict[str, list[Any]] = {name: [] for name in (*_PLACE, "_ts")}
    for row in batch.select([*_PLACE.values(), "headers", "timestamp"]).to_pylist():
        found = {each["key"]: each["value"] for each in row["headers"] or []}
        for name, (header, type_) in _HEADERS.items():
            value = _header(found.get(header), type_)
            places[name].append(row[_PLACE[name]] if value is None else value)
        time_ms = _header(found.get(header_names.TIMESTAMP), int, signed=True)
        places["_ts"].append(None if time_ms is None else time_ms * 1000)
    own = batch.column("timestamp")
    times = pyarrow.array(places.pop("_ts"), pyarrow.int64())
    arrays = {
        name: pyarrow.array(values, batch.column(_PLACE[name]).type)
        for name, values in places.items()
    }
    return {**arrays, "_ts": compute.coalesce(times.cast(own.type), own)}


def _header(value: bytes | None, type_: type, *, signed: bool = False) -> Any:
    text = (value or b"").decode("utf-8", "replace")
    if type_ is str:
        return text or None
    digits = text[1:] if signed and text.startswith("-") else text
    return int(text) if digits.isdecimal() and len(digits) <= 15 else None


def _calendar(times: Any) -> Any:
    """Null for a time outside of the calendar."""
    import pyarrow
    from pyarrow import compute

    micros = times.cast(pyarrow.int64())
    inside = compute.and_(
        compute.greater_equal(micros, _TIME_MIN), compute.less_equal(micros, _TIME_MAX)
    )
    return compute.if_else(inside, times, pyarrow.scalar(None, times.type))
