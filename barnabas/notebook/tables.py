"""The records of a topic as an Arrow table. Needs pyarrow (`barnabas[arrow]`)."""

from typing import TYPE_CHECKING, Any

from barnabas.client.consumer.arrow import arrow_schema, pyarrow_or_why
from barnabas.notebook.reading import READ_S_MAX, Settings, open_reader, record_spans
from barnabas.sync import Admin

if TYPE_CHECKING:
    import pyarrow


def read_table(
    admin: Admin, settings: Settings, topic: str, last: str | int | None, json: bool
) -> "pyarrow.Table":
    """All records; of the last hour ("1h"); or the last N of each partition. `json`: with the
    fields of values that are JSON objects as columns, in place of the value."""
    pa = pyarrow_or_why()
    spans = record_spans(admin, topic, last)
    batches: list[Any] = []
    if spans:
        with open_reader(settings, spans) as consumer:
            while not consumer.finished():
                batch = consumer.read_arrow(timeout=READ_S_MAX)
                if not batch.num_rows and not consumer.finished():
                    raise TimeoutError(f"{topic}: no record within {READ_S_MAX:.0f} s")
                batches.append(batch)
    table = pa.Table.from_batches(batches, schema=arrow_schema())
    return _with_fields(pa, table) if json else table


def _with_fields(pa: Any, table: Any) -> Any:
    """Values that are JSON objects as columns; rows of other values have nulls."""
    import json

    rows = []
    for value in table.column("value").to_pylist():
        try:
            fields = json.loads(value)
        except (TypeError, ValueError):
            fields = None
        rows.append(fields if isinstance(fields, dict) else {})
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        column = [row.get(name) for row in rows]
        try:
            values = pa.array(column)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            values = pa.array([None if each is None else str(each) for each in column])
        shown = name if name not in table.column_names else f"{name}_"
        table = table.append_column(shown, values)
    return table.drop_columns(["value"]) if names else table
