"""Typed values: two more columns, `data` and `error`, for JSON, Avro or Protobuf.

In: Arrow batches with a binary `value`, a schema. Out: the same batches, with a struct `data`, and
in `error` the reason why a value could not be read.
Always: every row stays; a bad one has `data` null and `error` set, a null value has neither.

Options: `valueFormat` (json, avro, protobuf); `valueSchema`, a schema or the file it is in (json:
as Spark writes columns, "id long, name string"; avro: its JSON; protobuf: a file of
`protoc --descriptor_set_out`, with `valueMessage`); with `schemaRegistry`, an address, values are
framed, and without a `valueSchema` the columns are those of the latest schema of `valueSubject`
(default: TOPIC-value).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import OptionError, PipelineError

if TYPE_CHECKING:
    import pyarrow

FORMATS = ("json", "avro", "protobuf")
_PATH_SIZE_MAX = 1000
_ERROR_SIZE_MAX = 300

Decode = Callable[[bytes], Any]


@dataclass(frozen=True)
class TypedOptions:
    """The options for reading values."""

    format: str
    schema: str | None = None
    message: str | None = None
    registry: str | None = None
    subject: str | None = None


def typed_options(given: Mapping[str, str]) -> TypedOptions | None:
    """None: values stay bytes."""
    options = {name.lower(): value for name, value in given.items()}
    name = options.get("valueformat")
    if name is None:
        for other in ("valueSchema", "valueMessage", "schemaRegistry", "valueSubject"):
            if other.lower() in options:
                raise OptionError(f"{other} is set without valueFormat: set valueFormat to one of"
                                  f" {', '.join(FORMATS)}")  # fmt: skip
        return None
    name = name.strip().lower()
    if name not in FORMATS:
        raise OptionError(f"valueFormat: expected {', '.join(FORMATS)}, got {name[:100]!r}")
    schema, registry = options.get("valueschema"), options.get("schemaregistry")
    if schema is None and registry is None:
        raise OptionError(f"valueFormat {name} needs valueSchema or schemaRegistry")
    message = options.get("valuemessage")
    if name == "protobuf" and schema is not None and not message:
        raise OptionError("valueFormat protobuf needs valueMessage, e.g. shop.Order")
    subject = options.get("valuesubject")
    if registry is not None and subject is None:
        topics = [topic.strip() for topic in options.get("subscribe", "").split(",")]
        if len(topics) != 1 or not topics[0]:
            raise OptionError("valueSubject must be set unless exactly one topic is subscribed")
        subject = f"{topics[0]}-value"
    return TypedOptions(name, schema, message, registry, subject)


def columns_of(options: TypedOptions) -> str:
    """The two columns, as Spark writes them."""
    if options.format == "json":
        fields = _json_fields(options)
    elif options.format == "avro":
        from barnabas.pipeline.formats.avro import avro_fields, avro_schema

        fields = avro_fields(avro_schema(options))
    else:
        from barnabas.pipeline.formats.protobuf import message_fields, message_type

        fields = message_fields(message_type(options))
    return f"data struct<{fields}>, error string"


def _json_fields(options: TypedOptions) -> str:
    if options.schema is None:
        from barnabas.pipeline.formats.json_schema import json_schema_fields
        from barnabas.pipeline.formats.registry import latest_schema

        found = latest_schema(options.registry or "", options.subject or "")
        return json_schema_fields(found.text)
    from barnabas.pipeline.formats.ddl import check_columns_text

    fields = _text(options.schema).strip()
    check_columns_text(fields, "valueSchema")
    return fields


def schema_text(options: TypedOptions) -> str:
    return _text(options.schema or "")


def schema_path(options: TypedOptions) -> Path:
    return Path(options.schema or "")


def _text(schema: str) -> str:
    """The schema, or the content of the file that the option names."""
    if len(schema) < _PATH_SIZE_MAX and "\n" not in schema and Path(schema).is_file():
        return Path(schema).read_text()
    return schema


def typed(
    options: TypedOptions, data_type: Any, batches: Iterator["pyarrow.RecordBatch"]
) -> Iterator["pyarrow.RecordBatch"]:
    """`data_type`: Spark's type of the column `data`."""
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_type

    arrow_type = to_arrow_type(data_type, timezone="UTC")
    decode = _decoder(options, data_type)
    for batch in batches:
        values = batch.column("value").to_pylist()
        if options.registry is not None and "headers" in batch.schema.names:
            from barnabas.pipeline.formats.registry import with_frames

            values = with_frames(values, batch.column("headers"))
        data, errors = _columns(decode, values, arrow_type)
        schema = batch.schema.append(pyarrow.field("data", arrow_type))
        schema = schema.append(pyarrow.field("error", pyarrow.string()))
        yield pyarrow.RecordBatch.from_arrays([*batch.columns, data, errors], schema=schema)


def _columns(decode: Decode, values: list[bytes | None], arrow_type: Any) -> tuple[Any, Any]:
    import pyarrow

    rows: list[Any] = []
    errors: list[str | None] = []
    for value in values:
        try:
            rows.append(None if value is None else decode(value))
            errors.append(None)
        except PipelineError:
            raise  # an unreachable registry is not an error of the row
        except Exception as problem:
            rows.append(None)
            errors.append(_said(problem))
    try:
        data = pyarrow.array(rows, arrow_type)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        # One value does not fit its type: convert row by row to find it.
        parts = []
        for number, row in enumerate(rows):
            try:
                parts.append(pyarrow.array([row], arrow_type))
            except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as problem:
                parts.append(pyarrow.nulls(1, arrow_type))
                errors[number] = _said(problem)
        data = pyarrow.concat_arrays(parts)
    return data, pyarrow.array(errors, pyarrow.string())


def _said(problem: Exception) -> str:
    text = " ".join(str(problem).split()) or type(problem).__name__
    return text[:_ERROR_SIZE_MAX]


def _decoder(options: TypedOptions, data_type: Any) -> Decode:
    if options.format == "json":
        from barnabas.pipeline.formats.json import json_decoder

        return json_decoder(data_type, framed=options.registry is not None)
    if options.format == "avro":
        from barnabas.pipeline.formats.avro import avro_decoder

        return avro_decoder(options)
    from barnabas.pipeline.formats.protobuf import protobuf_decoder

    return protobuf_decoder(options)
