"""The log of a Delta table, written with delta-rs: without a jar, and without reading rows.

In: descriptions of Parquet files that tasks have written below the table. Out: commits.
Always: files become part of the table in one commit together with Delta's transaction identifiers:
KEY, with a version that rises by one; KEY/end, a digest of the batch's end offsets; and for each
partition KEY/TOPIC-ID/PARTITION, the offset up to which the table has rows. KEY names the pipeline,
so that a new checkpoint does not write rows again. So a row is in the table once, and a batch that
is half written is not in it at all. Of two drivers that commit at the same time, one is refused.
Not here: the files (file_writer.py), what they mean (delta_table.py).
"""

import json
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.batch_commit import NONE, Attempt, CommitUnknown, TableState
from barnabas.pipeline.lake.file_writer import FILE_SIZE, WrittenFile
from barnabas.pipeline.lake.store import Store, answer_of
from barnabas.pipeline.spark.batch_identity import BatchIdentity, digest, partition_key

_ATTEMPT = "barnabas.attempt"
_HISTORY_MAX = 50
_WITH_STATISTICS = ("_partition", "_offset", "_ts")


def deltalake_or_why() -> Any:
    """The module deltalake. PipelineError, which says how to install it, if it is missing."""
    try:
        import deltalake
    except ImportError:
        raise PipelineError(
            "deltalake is not installed: pip install 'barnabas[delta]', or set sink.format to"
            " parquet"
        ) from None
    return deltalake


class DeltaLog:
    """The log of one table, as one pipeline writes it."""

    def __init__(self, store: Store, columns: list[str], pipeline: str) -> None:
        self._delta = deltalake_or_why()
        self._store = store
        self._columns = columns
        self._key = f"barnabas/{pipeline}"
        self._table: Any = None

    def check(self, schema: Any) -> None:
        """PipelineError if the table exists and does not accept rows of this schema."""
        where = self._store.uri
        if not self._is_table():
            if self._store.names():
                raise PipelineError(
                    f"sink.path: {where} has files but is not a Delta table: use another path"
                )
            return
        table = self._delta.DeltaTable(where)
        there = list(table.metadata().partition_columns)
        if there != self._columns:
            raise PipelineError(
                f"sink.partition_by: the table in {where} has {', '.join(there) or 'none'},"
                f" not {', '.join(self._columns) or 'none'}: use another path"
            )
        types = _types(table.schema())
        for name, type_ in _types(self._delta.Schema.from_json(schema.json())).items():
            if types.get(name, type_) != type_:
                raise PipelineError(
                    f"column {name} is {types[name]} in the table in {where}, and"
                    f" {type_} in the spec: a column cannot change its type; use another name"
                )

    def _is_table(self) -> bool:
        try:
            return bool(self._delta.DeltaTable.is_deltatable(self._store.uri))
        except OSError as problem:
            raise PipelineError(f"sink.path: {self._store.uri}: {answer_of(problem)}") from None

    def open(self, schema: Any) -> None:
        """The current table. Creates the table if there is none, and adds new columns."""
        wanted = self._delta.Schema.from_json(schema.json())
        try:
            self._table = self._delta.DeltaTable.create(
                self._store.uri, wanted, mode="ignore", partition_by=self._columns
            )
            there = _types(self._table.schema())
            added = [field for field in wanted.fields if field.name not in there]
            if added:
                self._table.alter.add_columns(added)
                self._table.update_incremental()
        except OSError as problem:
            raise PipelineError(f"sink.path: {self._store.uri}: {answer_of(problem)}") from None

    def exists(self) -> bool:
        """Whether there is a table. It is open then."""
        if self._table is None and self._is_table():
            self._table = self._delta.DeltaTable(self._store.uri)
        return self._table is not None

    def is_own(self) -> bool:
        """Whether this pipeline has written to the table, which is open."""
        return self._table.transaction_version(self._key) is not None

    def _refresh(self) -> None:
        try:
            self._table.update_incremental()
        except OSError as problem:
            raise PipelineError(f"sink.path: {self._store.uri}: {answer_of(problem)}") from None

    @property
    def version(self) -> int:
        number: int = self._table.version()
        return number

    @property
    def schema_json(self) -> dict[str, Any]:
        """As Spark has it."""
        found: dict[str, Any] = json.loads(self._table.schema().to_json())
        return found

    def state(self, identity: BatchIdentity) -> TableState:
        """The last version, and up to where the table has rows, of the partitions of this batch.
        The table stores numbers only, so each partition has one; reading them takes milliseconds
        each, so they are read only if the table does not end where the batch begins.
        """
        self._refresh()
        # Before, the key was the query.
        for key in (self._key, identity.query):
            last = self._table.transaction_version(key)
            if last is not None:
                break
        else:
            return TableState(NONE, {})
        if self._table.transaction_version(f"{key}/end") == digest(
            identity.start, identity.topic_ids
        ):
            ids = identity.topic_ids
            return TableState(last, {partition_key(at, ids): o for at, o in identity.start.items()})
        return TableState(last, self._offsets(key, identity.keys().values()))

    def offsets(self, keys: Iterable[str]) -> dict[str, int]:
        """Up to where the table has rows of these partitions, by `partition_key`."""
        return self._offsets(self._key, keys)

    def _offsets(self, of: str, keys: Iterable[str]) -> dict[str, int]:
        found = {key: self._table.transaction_version(f"{of}/{key}") for key in keys}
        return {key: offset for key, offset in found.items() if offset is not None}

    def commit(
        self, files: Sequence[WrittenFile], attempt: Attempt, *, replace: bool = False
    ) -> bool:
        """Adds the files to the table, or puts them in the place of all others. False, and nothing
        is changed, if another program committed for this pipeline since `state`: Delta refuses two
        concurrent transactions with one identifier.
        """
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import CommitProperties, Transaction

        identity, now_ms = attempt.identity, int(time.time() * 1000)
        numbers = {self._key: attempt.version}
        numbers[f"{self._key}/end"] = digest(identity.end, identity.topic_ids)
        first = self._table.transaction_version(self._key) is None
        for key, offset in attempt.done_after.items():
            if first or attempt.done_before.get(key) != offset:
                numbers[f"{self._key}/{key}"] = offset
        about = {"barnabas.batch": json.dumps(identity.document()), _ATTEMPT: attempt.id}
        try:
            self._table.create_write_transaction(
                [self._added(file, now_ms) for file in files],
                "overwrite" if replace else "append",
                self._table.schema(),
                self._columns,
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(n, v, now_ms) for n, v in numbers.items()],
                    custom_metadata=about,
                ),
            )
        except CommitFailedError:
            return False
        except Exception as problem:
            raise CommitUnknown(answer_of(problem)) from None
        self._refresh()
        return True

    def last_batch(self) -> str | None:
        """The identity of a recent batch, as JSON."""
        recent = self._table.history(_HISTORY_MAX)
        return next((text for entry in recent if (text := entry.get("barnabas.batch"))), None)

    def has_attempt(self, attempt: Attempt) -> bool:
        self._refresh()
        recent = self._table.history(_HISTORY_MAX)
        return any(entry.get(_ATTEMPT) == attempt.id for entry in recent)

    def files(self) -> list[str]:
        """The names of the files in the table."""
        found = []
        for uri in self._table.file_uris():
            name = self._store.name_of(unquote(uri))
            if name is None:
                raise PipelineError(f"{uri} is outside of the table {self._store.uri}")
            found.append(name)
        return found

    def add_actions(self) -> list[dict[str, Any]]:
        """The files, with partition values and statistics."""
        import pyarrow

        found: list[dict[str, Any]] = pyarrow.table(
            self._table.get_add_actions(flatten=True)
        ).to_pylist()
        return found

    def _added(self, file: WrittenFile, now_ms: int) -> Any:
        from deltalake.transaction import AddAction

        return AddAction(
            path=file.name,
            size=file.size,
            partition_values={
                name: _partition_text(value)
                for name, value in zip(self._columns, file.values, strict=True)
            },
            modification_time=now_ms,
            data_change=True,
            stats=json.dumps(statistics(file)),
        )

    def join_small_files(self) -> tuple[int, int]:
        """In this process. Returns how many files were joined, and into how many."""
        done = self._table.optimize.compact(target_size=FILE_SIZE)
        return int(done.get("numFilesRemoved", 0)), int(done.get("numFilesAdded", 0))

    def vacuum(self, *, hours: int | None = None, full: bool = False) -> list[str]:
        """Deletes files that left the table (a week ago, if the table does not say otherwise).
        `full`: also files that no commit names.
        """
        deleted: list[str] = self._table.vacuum(
            hours, dry_run=False, full=full, enforce_retention_duration=hours is None
        )
        return deleted


def statistics(file: WrittenFile) -> dict[str, Any]:
    """Delta's statistics of a file: readers skip files by them."""
    from pyarrow import parquet

    footer: parquet.FileMetaData = file.metadata()
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in _WITH_STATISTICS:
        parts = [
            footer.row_group(group).column(column).statistics
            for group in range(footer.num_row_groups)
            for column in range(footer.num_columns)
            if footer.row_group(group).column(column).path_in_schema == name
        ]
        if not parts or any(each is None for each in parts):
            continue
        nulls[name] = sum(each.null_count or 0 for each in parts)
        known = [each for each in parts if each.has_min_max]
        if known:
            low[name] = _bound(min(each.min for each in known), up=False)
            high[name] = _bound(max(each.max for each in known), up=True)
    return {"numRecords": file.rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _bound(value: Any, *, up: bool) -> Any:
    """Times have milliseconds in Delta's statistics."""
    if not isinstance(value, datetime):
        return value
    value = value.astimezone(UTC)
    if up and value.microsecond % 1000:
        value += timedelta(microseconds=1000 - value.microsecond % 1000)
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z".zfill(24)


def _partition_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _types(schema: Any) -> dict[str, str]:
    return {field.name: _text(json.loads(field.type.to_json())) for field in schema.fields}


def _text(type_: Any) -> str:
    return type_ if isinstance(type_, str) else json.dumps(type_, sort_keys=True)
