"""The metadata of an Iceberg table, written with pyiceberg: without a jar, and without reading
rows.

In: descriptions of Parquet files that tasks have written below the table. Out: snapshots.
Always: files become part of the table in one commit. The snapshot's summary says which batch it is
and the offsets up to which the table has rows; a property of the table says it too, for the time
after the snapshot has expired. The commit is refused if the table has another snapshot than the one
that was asked for these offsets: pyiceberg's own retries would add the files to any snapshot.
If the property is ahead of the summary, the table was rolled back, and the pipeline stops.
Not here: the files (file_writer.py), the catalog and the columns (iceberg_catalog.py), Spark
(iceberg_table.py).
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.batch_commit import NONE, Attempt, CommitUnknown, TableState
from barnabas.pipeline.lake.file_writer import DAY, PartitionField, WrittenFile, has_bounds
from barnabas.pipeline.lake.iceberg_catalog import (
    CatalogSpec,
    check_columns,
    create,
    evolve,
    open_catalog,
    table_fields,
)
from barnabas.pipeline.lake.store import Store, answer_of
from barnabas.pipeline.spark.batch_identity import BatchIdentity, done_of

PIPELINE, OFFSETS, VERSION = "barnabas.pipeline", "barnabas.offsets", "barnabas.version"
ATTEMPT, TOPICS = "barnabas.attempt", "barnabas.topics"
_QUERY, _BATCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
_LAST = "barnabas.last."  # and the pipeline: a property of the table
_SEQUENCE = "barnabas.sequence"  # Iceberg's number of the snapshot
DATA = "data"


class IcebergLog:
    """The snapshots of one table, as one pipeline writes them."""

    def __init__(
        self, catalog: CatalogSpec, table: str, fields: tuple[PartitionField, ...], pipeline: str
    ) -> None:
        self.name = f"{catalog.name}.{table}"
        self._catalog = open_catalog(catalog)
        self._identifier = table
        self._fields = fields
        self._pipeline = pipeline
        self._table: Any = None

    # --- the table ---

    def exists(self) -> bool:
        """Whether there is a table. It is open then, as it is now."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            if self._table is None:
                self._table = self._catalog.load_table(self._identifier)
            else:
                self._table.refresh()
        except NoSuchTableError:
            self._table = None
            return False
        except Exception as problem:
            raise PipelineError(f"sink.table: {self.name}: {answer_of(problem)}") from None
        return True

    def check(self, schema: Any) -> None:
        """PipelineError if the table exists and does not accept rows of this Arrow schema."""
        if self.exists():
            self._check_partitions()
            check_columns(self._table.schema(), schema, self.name)

    def open(self, schema: Any) -> None:
        """The current table. Creates the table if there is none, and adds new columns."""
        if not self.exists():
            self._table = create(self._catalog, self._identifier, schema, self._fields)
        self._check_partitions()
        evolve(self._table, schema, self.name)

    def _check_partitions(self) -> None:
        there = table_fields(self._table)
        wanted = [field.text for field in self._fields]
        if there != wanted:
            raise PipelineError(
                f"sink.partition_by: the table {self.name} has {', '.join(there) or 'none'}, not"
                f" {', '.join(wanted) or 'none'}: use another table"
            )

    @property
    def store(self) -> Store:
        return Store(self._table.location())

    @property
    def table(self) -> Any:
        """pyiceberg's own."""
        return self._table

    def arrow_schema(self) -> Any:
        """The columns of new files, with the ids by which Iceberg knows columns."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return schema_to_pyarrow(self._table.schema(), include_field_ids=True)

    # --- what it has ---

    def state(self, identity: BatchIdentity | None = None) -> TableState:
        """What the current snapshot has."""
        return self.state_of_open_table() if self.exists() else TableState(NONE, {})

    def state_of_open_table(self) -> TableState:
        return pipeline_state(self._table, self._pipeline, self.name)

    def offsets(self) -> dict[str, int]:
        """Up to where the table has rows, by `partition_key`; empty if there is no table."""
        return dict(self.state().done)

    def has_attempt(self, attempt: Attempt) -> bool:
        return self.exists() and any(
            snapshot.summary is not None and snapshot.summary.get(ATTEMPT) == attempt.id
            for snapshot in self._table.metadata.snapshots
        )

    def last_attempt(self) -> str | None:
        """The attempt that the current snapshot, or one before it, was written by."""
        summary = last_summary(self._table, self._pipeline)
        noted = parsed(self._table.metadata.properties.get(f"{_LAST}{self._pipeline}"))
        found = noted if summary is None else summary
        return found.get(ATTEMPT) if found else None

    def files(self) -> list[str]:
        """The names of the files in the table."""
        from pyiceberg.manifest import DataFileContent

        store = self.store
        found = []
        for task in self._table.scan().plan_files():
            if task.delete_files or task.file.content != DataFileContent.DATA:
                raise PipelineError(f"the table {self.name} has delete files: compact it first")
            name = store.name_of(task.file.file_path)
            if name is None:
                raise PipelineError(f"{task.file.file_path} is outside of the table {self.name}")
            found.append(name)
        return found

    # --- commits ---

    def commit(
        self, files: Sequence[WrittenFile], attempt: Attempt, *, replace: bool = False
    ) -> bool:
        """Adds the files to the table, or puts them in the place of all others. False, and nothing
        is changed, if another program committed since `state`.
        """
        about = {
            PIPELINE: self._pipeline,
            _QUERY: attempt.identity.query,
            _BATCH: str(attempt.identity.number),
            VERSION: str(attempt.version),
            OFFSETS: json.dumps(attempt.done_after, sort_keys=True),
            TOPICS: json.dumps(dict(attempt.identity.topic_ids), sort_keys=True),
            ATTEMPT: attempt.id,
        }
        last = {key: about[key] for key in (VERSION, OFFSETS, ATTEMPT)}
        last[_SEQUENCE] = str(self._table.metadata.last_sequence_number + 1)
        return commit_files(
            self._table,
            [data_file(self._table, self.store, file) for file in files],
            _current_files(self._table) if replace else [],
            about,
            {f"{_LAST}{self._pipeline}": json.dumps(last)},
        )


def commit_files(
    table: Any,
    added: Iterable[Any],
    removed: Iterable[Any],
    about: dict[str, str],
    properties: dict[str, str],
) -> bool:
    """One commit on top of the snapshot that `table` has. False if it was refused."""
    from pyiceberg.exceptions import CommitFailedException, ValidationException
    from pyiceberg.table.update import AssertTableUUID

    removed = list(removed)
    transaction = table.transaction()
    try:
        update = transaction.update_snapshot(snapshot_properties=about)
        producer = update.overwrite() if removed else update.fast_append()
        for file in removed:
            producer.delete_data_file(file)
        for file in added:
            producer.append_data_file(file)
        producer.commit()
        if properties:
            transaction.set_properties(properties)
        # Not commit_transaction: it would add the files to whatever snapshot is there by then.
        needed = (*transaction._requirements, AssertTableUUID(uuid=table.metadata.table_uuid))
        table._do_commit(updates=transaction._updates, requirements=needed)
    except (CommitFailedException, ValidationException):
        return False
    except Exception as problem:
        raise CommitUnknown(answer_of(problem)) from None
    return True


def pipeline_state(table: Any, pipeline: str, name: str) -> TableState:
    """The version and the offsets of a pipeline in a table as it is open."""
    summary = last_summary(table, pipeline)
    noted = parsed(table.metadata.properties.get(f"{_LAST}{pipeline}"))
    if summary is not None and noted and noted.get(ATTEMPT) != summary.get(ATTEMPT):
        raise PipelineError(
            f"sink.table: {name} was rolled back: its current snapshot has version"
            f" {summary.get(VERSION)} of {pipeline}, and version {noted.get(VERSION)} was written."
            " Roll it forward again, or use another sink.table and another run.checkpoint"
        )
    if summary is None and noted and _is_before(table, noted):
        raise PipelineError(
            f"sink.table: {name} was rolled back to a snapshot without rows of {pipeline}. Roll it"
            " forward again, or use another sink.table and another run.checkpoint"
        )
    found: Any = summary if summary is not None else noted
    if not found:
        return TableState(NONE, {})
    version = str(found.get(VERSION, ""))
    return TableState(
        int(version) if version.isdecimal() else 0, done_of(parsed(found.get(OFFSETS)))
    )


def last_summary(table: Any, pipeline: str) -> Any:
    """The summary of the last snapshot that the pipeline wrote, back from the current one: others
    may have joined files since.
    """
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary
        if summary is not None and summary.get(PIPELINE) == pipeline:
            return summary
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.metadata.snapshot_by_id(parent)
    return None


def _is_before(table: Any, noted: dict[str, Any]) -> bool:
    """Whether the current snapshot is older than the pipeline's last one. If it is newer, the
    pipeline's snapshots have expired.
    """
    snapshot = table.current_snapshot()
    number = str(noted.get(_SEQUENCE, "0"))
    sequence = (snapshot.sequence_number or 0) if snapshot is not None else -1
    return sequence < (int(number) if number.isdecimal() else 0)


def _current_files(table: Any) -> list[Any]:
    return [task.file for task in table.scan().plan_files()]


def data_file(table: Any, store: Store, file: WrittenFile) -> Any:
    """Iceberg's description of a file, from its footer."""
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
        schema_to_pyarrow,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    schema = table.schema()
    # Payloads have no bounds: they would make the table's metadata large.
    without = {
        f"write.metadata.metrics.column.{each.name}": "none"
        for each in schema_to_pyarrow(schema)
        if not has_bounds(each.type)
    }
    statistics = data_file_statistics_from_parquet_metadata(
        file.metadata(),
        compute_statistics_plan(schema, {**table.metadata.properties, **without}),
        parquet_path_to_id_mapping(schema),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.location().rstrip('/')}/{file.name}",
        file_format=FileFormat.PARQUET,
        partition=Record(*_partition(table, file)),
        file_size_in_bytes=file.size,
        sort_order_id=None,
        spec_id=table.metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _partition(table: Any, file: WrittenFile) -> list[Any]:
    """Iceberg stores a date as the number of its day."""
    from datetime import date

    from pyiceberg.types import DateType

    found = []
    for field, value in zip(table.spec().fields, file.values, strict=True):
        is_date = isinstance(table.schema().find_type(field.source_id), DateType)
        if is_date and isinstance(value, str) and str(field.transform) != DAY:
            value = (date.fromisoformat(value) - date(1970, 1, 1)).days
        found.append(value)
    return found


def parsed(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
