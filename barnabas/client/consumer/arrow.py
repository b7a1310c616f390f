"""Record batches into Arrow's, with the columns of Spark's Kafka source.

In: batches as they came. Out: pyarrow.RecordBatch.
Always: a checksum is looked at before anything else; no object is made for a record; a batch that
is handed out is never written to again.
Not here: the loop over records (wire/columns.py), which batches count (decoding.py).

Needs pyarrow, which only the extra `barnabas[spark]` or `barnabas[arrow]` installs.
"""

from array import array
from typing import TYPE_CHECKING, Any

from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.batch import LOG_APPEND_TIME, BatchHeader, check_crc
from barnabas.wire.columns import Binary, Columns
from barnabas.wire.records import RECORDS_SIZE_MAX, body_of

if TYPE_CHECKING:
    import pyarrow

_CREATE_TIME = 0
_APPEND_TIME = 1
_SPARE_MAX = 3  # sets of columns kept for when nobody looks at them any more
_TIME_SCALE = 1000  # microseconds, as Spark's timestamps


def pyarrow_or_why() -> Any:
    """The module; InvalidRequest that says how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise InvalidRequest(
            Code.INVALID_CONFIG, "Arrow batches need pyarrow: pip install 'barnabas[arrow]'"
        ) from None
    return pyarrow


def arrow_schema(*, headers: bool = False) -> "pyarrow.Schema":
    """Names and types of Spark's Kafka source, exactly."""
    pa = pyarrow_or_why()
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if headers:
        pair = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        fields.append(pa.field("headers", pa.list_(pa.field("element", pair))))
    return pa.schema(fields)


class ArrowRows:
    """Add batches of any partitions, then `take` them as one. The memory is used again."""

    def __init__(self, *, headers: bool = False) -> None:
        self._pa = pyarrow_or_why()
        self._headers = headers
        self.schema = arrow_schema(headers=headers)
        self._columns = Columns(headers, _TIME_SCALE)
        self._spare: list[Columns] = []
        self._runs: list[tuple[int, str, int, int]] = []  # rows, topic, partition, kind of time

    @property
    def rows(self) -> int:
        return self._columns.rows

    @property
    def size(self) -> int:
        """Bytes of the rows so far, roughly."""
        return self._columns.size

    def add(
        self,
        topic: str,
        partition: int,
        header: BatchHeader,
        batch: memoryview,
        first: int,
        stop: int,
        *,
        size_max: int = RECORDS_SIZE_MAX,
        crc: bool = True,
    ) -> int:
        """Add a data batch's records from offset `first` to before `stop`; how many."""
        if crc:
            check_crc(batch, header)
        appended = bool(header.attributes & LOG_APPEND_TIME)
        count = self._columns.append(
            body_of(batch, header, size_max=size_max),
            header.record_count,
            header.base_offset,
            header.last_offset_delta,
            header.base_timestamp,
            header.max_timestamp,
            appended,
            first,
            stop,
        )
        kind = _APPEND_TIME if appended else _CREATE_TIME
        if count:
            last = self._runs[-1] if self._runs else None
            if last is not None and last[1:] == (topic, partition, kind):
                self._runs[-1] = (last[0] + count, topic, partition, kind)
            else:
                self._runs.append((count, topic, partition, kind))
        return count

    def take(self) -> "pyarrow.RecordBatch":
        """The rows so far; begins anew."""
        pa = self._pa
        columns = self._columns
        rows = columns.rows
        times = pa.py_buffer(columns.timestamps)
        arrays = [
            self._binary(columns.keys, rows, columns.keys.nulls, pa.binary()),
            self._binary(columns.values, rows, columns.values.nulls, pa.binary()),
            self._repeated(1, pa.string()),
            self._repeated(2, pa.int32()),
            pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(columns.offsets)], 0),
            pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), rows, [None, times], 0),
            self._repeated(3, pa.int32()),
        ]
        if self._headers:
            arrays.append(self._header_lists(columns, rows))
        taken = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._runs = []
        self._renew()
        return taken

    def _renew(self) -> None:
        """Go on with columns that nobody looks at any more, else with new ones."""
        self._spare.append(self._columns)
        for number, columns in enumerate(self._spare):
            if columns.clear():
                self._columns = self._spare.pop(number)
                return
        del self._spare[: -_SPARE_MAX + 1]
        self._columns = Columns(self._headers, _TIME_SCALE)

    def _binary(self, column: Binary, rows: int, nulls: int, kind: Any) -> Any:
        buffer = self._pa.py_buffer
        valid = buffer(column.valid) if nulls else None
        buffers = [valid, buffer(column.ends), buffer(column.content)]
        return self._pa.Array.from_buffers(kind, rows, buffers, nulls)

    def _repeated(self, field: int, kind: Any) -> Any:
        pa = self._pa
        parts = [pa.repeat(pa.scalar(run[field], kind), run[0]) for run in self._runs]
        if len(parts) == 1:
            return parts[0]
        return pa.concat_arrays(parts) if parts else pa.array([], kind)

    def _header_lists(self, columns: Columns, rows: int) -> Any:
        pa = self._pa
        count = columns.header_rows
        keys = self._binary(columns.header_keys, count, 0, pa.string())
        try:
            keys.validate(full=True)
        except pa.ArrowInvalid:
            keys = self._mended(columns.header_keys, count)
        # How many are null is not known: Arrow counts them when asked.
        values = self._binary(columns.header_values, count, -1, pa.binary())
        kind = self.schema.field("headers").type
        pairs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
        buffers = [pa.py_buffer(columns.header_valid), pa.py_buffer(columns.header_ends)]
        return pa.ListArray.from_buffers(kind, rows, buffers, -1, children=[pairs])

    def _mended(self, column: Binary, count: int) -> Any:
        """Names that are not UTF-8 are shown as Java shows them, with replacement characters."""
        ends: array[int] = column.ends
        content = bytes(column.content)
        texts = [content[ends[i] : ends[i + 1]].decode(errors="replace") for i in range(count)]
        return self._pa.array(texts, self._pa.string())
