"""A table and the topics that it is made of, read as one: `option("lake", SPEC)`.

In: the spec of a lake. Out: the rows of one snapshot of its table, and from the offsets where the
snapshot ends, the records of the brokers, as rows of the table.
Always: no row is missing, and none is there twice, also while the pipeline writes: files and
offsets are of one snapshot, and only committed records are read. If the brokers have deleted
records that are not in the snapshot, a newer snapshot is used; if there is none, the read fails.
A bad row is in neither part, until it succeeds from the retry topic.
Not here: snapshots (snapshot.py), which rows a filter needs (pruning.py).
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import DataLoss, OptionError, one_line, one_line_each
from barnabas.pipeline.formats.typed import columns_of, typed, typed_options
from barnabas.pipeline.lake.data_files import as_schema, read_file
from barnabas.pipeline.lake.log_rows import log_rows
from barnabas.pipeline.lake.pruning import Bound, bounds_of, renamed
from barnabas.pipeline.lake.snapshot import (
    TableFile,
    TableSnapshot,
    check_readable,
    snapshot_of,
)
from barnabas.pipeline.lake.store import Store
from barnabas.pipeline.run.spec import Spec, load
from barnabas.pipeline.run.spec_source import source_of
from barnabas.pipeline.spark.batch_identity import known_ids, partition_key
from barnabas.pipeline.spark.brokers import Brokers
from barnabas.pipeline.spark.offsets import OffsetRange, split
from barnabas.pipeline.spark.options import SourceOptions, source_options
from barnabas.pipeline.spark.pushdown import PushedFilters, narrow
from barnabas.pipeline.spark.reading import Task, read_task
from barnabas.pipeline.spark.worker_start import settle

if TYPE_CHECKING:
    import pyarrow

OURS = "_topic string, _partition int, _offset bigint, _ts timestamp"
_NAMES = ("_topic", "_partition", "_offset", "_ts", "date")
_SNAPSHOTS_MAX = 5
_BYTES_PER_TASK = 64 * 1024 * 1024


class UnionSlice(InputPartition):  # type: ignore[misc]
    """Files of the table, or a range of the log."""


def lake_spec(given: Mapping[str, str]) -> Spec:
    """The spec that the option `lake` names."""
    name = next(value for key, value in given.items() if key.lower() == "lake")
    path = Path(name)
    if not path.is_file():
        raise OptionError(f"lake: {name[:200]!r} is not a file: name the spec of a pipeline")
    others = sorted(key for key in given if key.lower() not in ("lake", "failondataloss", "path"))
    if others:
        raise OptionError(f"{others[0]}: the spec of the lake sets it: leave this option out")
    spec = load(path)
    check_readable(spec)
    return spec


def union_columns(spec: Spec) -> str:
    """The columns, as Spark writes them."""
    options = typed_options(source_of(spec))
    if options is None:
        fields = "key binary, value binary"
    else:
        fields = columns_of(options).removeprefix("data struct<").removesuffix(">, error string")
        fields = _without_colons(fields)
    day = ", date date" if "date" in spec.sink.partition_by else ""
    return f"{fields}, {OURS}{day}"


def _without_colons(fields: str) -> str:
    """At the top level, Spark writes no colon between the name and the type of a column."""
    found, depth, quoted = "", 0, False
    for letter in fields:
        quoted ^= letter == "`"
        if not quoted:
            depth += (letter in "<(") - (letter in ">)")
        found += " " if letter == ":" and not depth and not quoted else letter
    return re.sub(r" {2,}", " ", found)


def union_source(spec: Spec, given: Mapping[str, str]) -> dict[str, str]:
    """The options of the source for the records that are not in the table."""
    found = source_of(spec)
    found.pop("startingOffsets")
    for name in [name for name in found if name.lower().endswith("offsetspertrigger")]:
        del found[name]
    found.setdefault("kafka.isolation.level", "read_committed")
    for name, value in given.items():
        if name.lower() == "failondataloss":
            found["failOnDataLoss"] = value
    retry = spec.errors.retry_topic
    if retry is not None and "subscribe" in found:
        found["subscribe"] += f",{retry}"
    elif retry is not None:
        found["subscribePattern"] = f"({found['subscribePattern']})|^{re.escape(retry)}$"
    if "schemaRegistry" in found and spec.source.topics:
        found.setdefault("valueSubject", f"{spec.source.topics[0]}-value")
    return found


class UnionReader(DataSourceReader):  # type: ignore[misc]
    """Reads a snapshot and what follows it."""

    def __init__(self, given: Mapping[str, str], schema: Any) -> None:
        self._spec = lake_spec(given)
        self._given = union_source(self._spec, given)
        self._options: SourceOptions = source_options(self._given, streaming=False)
        self._schema = schema
        self._bounds: dict[str, Bound] = {}
        self._narrow = PushedFilters()

    @one_line
    def partitions(self) -> list[UnionSlice]:
        brokers = Brokers(self._options)
        table, ranges, ids = planned_union(self._spec, brokers, self._bounds)
        options = self._options
        ranges = [self._narrow.range(each) for each in ranges]
        pieces = split(ranges, options.tasks_min, options.records_per_task_max)
        tasks: list[Any] = [
            Task(
                each,
                tuple(sorted(options.client.items())),
                True,
                options.fail_on_data_loss,
                options.poll_timeout_ms,
                None,
                ids.get(each.topic) if options.fail_on_data_loss else None,
            )
            for each in pieces
        ]
        if table is not None:
            tasks += [(table.store, group) for group in grouped(table.files)]
        # For an empty list Spark starts one task without a partition.
        return [UnionSlice(each) for each in tasks] or [UnionSlice(None)]

    @one_line_each
    def read(self, partition: UnionSlice) -> Iterator["pyarrow.RecordBatch"]:
        settle()
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema, timezone="UTC")
        if isinstance(partition.value, Task):
            yield from self._log_rows(partition.value, schema)
        elif partition.value is not None:
            store, files = partition.value
            for file in files:
                yield from table_rows(store, file, schema, self._bounds)

    def _log_rows(self, task: Task, schema: "pyarrow.Schema") -> Iterator["pyarrow.RecordBatch"]:
        batches = read_task(task)
        options = typed_options(self._given)
        if options is not None:
            from pyspark.sql.types import StructType

            values = [each for each in self._schema.fields if each.name not in _NAMES]
            batches = typed(options, StructType(values), batches)
        for batch in batches:
            yield log_rows(self._spec, batch, schema)


class FilteringUnionReader(UnionReader):
    """Uses filters to read fewer files and records. Spark applies every filter again."""

    def pushFilters(self, filters: list[Any]) -> list[Any]:
        self._bounds = bounds_of(filters)
        # Retry rows have the offset and the time of their origin, not of their own record.
        if self._spec.errors.retry_topic is None:
            self._narrow = narrow(
                each for each in renamed(filters) if each.attribute != ("timestamp",)
            )
        return filters


def planned_union(
    spec: Spec, brokers: Brokers, bounds: Mapping[str, Bound]
) -> tuple[TableSnapshot | None, list[OffsetRange], Mapping[str, Any]]:
    """The snapshot, the ranges of the log that follow it, and the ids of the topics."""
    said = ""
    last: int | None = None
    for _ in range(_SNAPSHOTS_MAX):
        partitions = brokers.partitions()
        ids = known_ids(brokers.topic_ids)
        keys = {at: partition_key(at, ids) for at in partitions}
        table = snapshot_of(spec, bounds, list(keys.values()))
        done = table.done if table is not None else {}
        if table is not None:
            _check_topics(table, ids)
        # After the snapshot: what it does not have must still be there now.
        firsts, ends = brokers.earliest(partitions), brokers.latest(partitions, {})
        starts = {at: done.get(keys[at], firsts[at]) for at in partitions}
        gone = [at for at in partitions if firsts[at] > starts[at]]
        if not gone:
            ranges = [_range(at, starts[at], ends[at]) for at in partitions]
            return table, ranges, brokers.topic_ids
        at = gone[0]
        said = (
            f"{at}: the brokers have deleted records that are not in the table: they begin at"
            f" offset {firsts[at]}, and the table ends at {starts[at]}"
        )
        version = table.version if table is not None else None
        if version == last:
            break
        last = version
    raise DataLoss(said)


def _range(at: TopicPartition, start: int, stop: int) -> OffsetRange:
    return OffsetRange(at.topic, at.partition, start, max(start, stop))


def _check_topics(table: TableSnapshot, ids: Mapping[str, str]) -> None:
    for name, id_ in table.topic_ids.items():
        if ids.get(name, id_) != id_:
            raise DataLoss(
                f"topic {name!r} was deleted and created again: the table has rows of the old one."
                " Read the table by itself"
            )


def grouped(files: list[TableFile]) -> list[list[TableFile]]:
    """The files of each task."""
    groups: list[list[TableFile]] = []
    size = _BYTES_PER_TASK
    for file in sorted(files, key=lambda each: each.name):
        if size + file.size > _BYTES_PER_TASK:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups


def table_rows(
    store: Store, file: TableFile, schema: "pyarrow.Schema", bounds: Mapping[str, Bound]
) -> Iterator["pyarrow.RecordBatch"]:
    import pyarrow
    from pyarrow import dataset

    wanted: Any = None
    for name, bound in bounds.items():
        for value, keeps in ((bound.low, "__ge__"), (bound.high, "__le__")):
            if value is not None:
                limit = pyarrow.scalar(value, schema.field(name).type)
                one = getattr(dataset.field(name), keeps)(limit)
                wanted = one if wanted is None else wanted & one
    constants = dict(file.constants)
    if not constants:
        yield from read_file(store, file.name, schema, wanted)
        return
    inside = pyarrow.schema([each for each in schema if each.name not in constants])
    for batch in read_file(store, file.name, inside, wanted):
        for name, value in constants.items():
            if name in schema.names:
                column = pyarrow.array([value] * batch.num_rows, schema.field(name).type)
                batch = batch.append_column(name, column)
        yield as_schema(batch, schema)
