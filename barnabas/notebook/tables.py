"""The records of a topic as an Arrow table. Needs pyarrow (`barnabas[arrow]`)."""

import re
import time
from typing import TYPE_CHECKING, Any

from barnabas.client.admin.admin import EARLIEST, LATEST
from barnabas.client.consumer.arrow import arrow_schema, pyarrow_or_why
from barnabas.config.option import invalid
from barnabas.model.ids import TopicPartition
from barnabas.sync import Admin, PartitionConsumer

if TYPE_CHECKING:
    import pyarrow

READ_S_MAX = 30.0
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


def span_ms(text: str) -> int:
    """10s, 5min, 1h, 2d in milliseconds."""
    found = _SPAN.fullmatch(text.strip())
    if found is None or found[2] not in _UNITS_MS:
        raise invalid(f"last={text!r}: expected a time as 10s, 5min, 1h or 2d, or a number")
    return int(float(found[1]) * _UNITS_MS[found[2]])


def read_table(
    admin: Admin, servers: str, topic: str, last: str | int | None, json: bool
) -> "pyarrow.Table":
    """All records; of the last hour ("1h"); or the last N of each partition. `json`: with the
    fields of values that are JSON objects as columns, in place of the value."""
    pa = pyarrow_or_why()
    wanted = [TopicPartition(topic, n) for n in range(len(admin.topic(topic).partitions))]
    starts = {at: found.offset for at, found in _from(admin, wanted, last).items()}
    ends = {at: found.offset for at, found in admin.offsets(dict.fromkeys(wanted, LATEST)).items()}
    starts = {at: ends[at] if start < 0 else start for at, start in starts.items()}
    stops = {at: end for at, end in ends.items() if starts[at] < end}
    batches: list[Any] = []
    if stops:
        with PartitionConsumer(
            stops, bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer:
            for at in stops:
                consumer.seek(at, max(0, starts[at]))
            consumer.stop_at(stops)
            while not consumer.finished():
                batch = consumer.read_arrow(timeout=READ_S_MAX)
                if not batch.num_rows and not consumer.finished():
                    raise TimeoutError(f"{topic}: no record within {READ_S_MAX:.0f} s")
                batches.append(batch)
    table = pa.Table.from_batches(batches, schema=arrow_schema())
    return _with_fields(pa, table) if json else table


def _from(admin: Admin, wanted: list[TopicPartition], last: str | int | None) -> Any:
    if last is None:
        return admin.offsets(dict.fromkeys(wanted, EARLIEST))
    if isinstance(last, str):
        since = int(time.time() * 1000) - span_ms(last)
        return admin.offsets(dict.fromkeys(wanted, since))
    starts = admin.offsets(dict.fromkeys(wanted, EARLIEST))
    ends = admin.offsets(dict.fromkeys(wanted, LATEST))
    return {
        at: end._replace(offset=max(starts[at].offset, end.offset - last))
        for at, end in ends.items()
    }


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
