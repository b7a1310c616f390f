"""Upkeep of tables: joins small files, expires old snapshots, deletes files that no table names.

In: the spec of a lake, times. Out: what was done, as numbers.
Always: the rows and the offsets of a table stay the same. A file is deleted only if no snapshot
names it and it is older than any batch may take: a running batch has files that no snapshot names
yet. A commit that a pipeline makes meanwhile wins; the upkeep is tried again.
Not here: the rows of a batch (batch_commit.py).
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.batch_commit import CommitUnknown
from barnabas.pipeline.lake.file_writer import (
    FILE_SIZE,
    PartitionedFiles,
    PartitionField,
    WriterTask,
)
from barnabas.pipeline.lake.iceberg import DATA, commit_files, data_file
from barnabas.pipeline.lake.iceberg_catalog import partition_field, table_fields
from barnabas.pipeline.lake.store import Store, answer_of
from barnabas.pipeline.run.spec import LATEST, Spec

SMALL = FILE_SIZE // 2
JOINED_PER_COMMIT_MAX = 1024 * 1024 * 1024
_ATTEMPTS_MAX = 20
_METADATA = "metadata"


@dataclass
class Upkeep:
    """What was done."""

    joined: int = 0  # files that were replaced
    into: int = 0
    expired: int = 0  # snapshots
    deleted: int = 0  # files

    def __str__(self) -> str:
        return (
            f"joined {self.joined} files into {self.into}, expired {self.expired} snapshots,"
            f" deleted {self.deleted} files"
        )


def maintain(spec: Spec, *, snapshots_s: float, orphans_s: float) -> Upkeep:
    """`snapshots_s`: the age at which a snapshot expires. `orphans_s`: the age at which a file that
    no snapshot names is deleted.
    """
    if spec.kind != "lake" or spec.sink.format == "parquet":
        raise PipelineError(
            f"{spec.name}: only lakes in Delta or Iceberg need upkeep, and this is"
            f" {spec.kind if spec.kind != 'lake' else spec.sink.format}"
        )
    if spec.sink.format == "delta":
        return _delta(spec, orphans_s)
    from barnabas.pipeline.lake.iceberg_table import iceberg_log

    log = iceberg_log(spec)
    if not log.exists():
        raise PipelineError(f"sink.table: there is no table {log.name} yet")
    done = Upkeep()
    if spec.sink.keep != LATEST:  # each batch writes that table again
        join_small_files(log.table, done)
    expire_snapshots(log.table, snapshots_s, done)
    delete_orphans(log.table, orphans_s, done)
    return done


def _delta(spec: Spec, orphans_s: float) -> Upkeep:
    from barnabas.pipeline.lake.delta import DeltaLog

    log = DeltaLog(Store(str(spec.sink.path)), list(spec.sink.partition_by), spec.name)
    if not log.exists():
        raise PipelineError(f"sink.path: there is no table in {spec.sink.path} yet")
    done = Upkeep()
    if spec.sink.keep != LATEST:
        done.joined, done.into = log.join_small_files()
    done.deleted = len(log.vacuum(hours=max(int(orphans_s // 3600), 0), full=True))
    return done


# --- Iceberg ---


def join_small_files(table: Any, done: Upkeep) -> None:
    """Joins the small files of each partition, a limited number of bytes per commit."""
    while True:
        groups = _small(table)
        if not groups:
            return
        removed = [file for group in groups for file in group]
        added = _joined(table, groups)
        for _ in range(_ATTEMPTS_MAX):
            try:
                if commit_files(table, added, removed, {"barnabas.upkeep": "join"}, {}):
                    break
            except CommitUnknown as problem:
                raise PipelineError(f"{table.name()}: the commit failed: {problem}") from None
            table.refresh()
            if not _has(table, removed):
                break  # another program replaced them
        table.refresh()
        done.joined += len(removed)
        done.into += len(added)


def _small(table: Any) -> list[list[Any]]:
    """Groups of small files, each of one partition and not larger than a file may be."""
    by_partition: dict[Any, list[Any]] = {}
    for task in table.scan().plan_files():
        file = task.file
        if not task.delete_files and file.file_size_in_bytes < SMALL:
            by_partition.setdefault((file.spec_id, str(file.partition)), []).append(file)
    groups: list[list[Any]] = []
    total = 0
    for (spec_id, _), files in sorted(by_partition.items(), key=lambda each: str(each[0])):
        if spec_id != table.metadata.default_spec_id:
            continue
        group: list[Any] = []
        size = 0
        for file in sorted(files, key=lambda each: str(each.file_path)):
            if total + size + file.file_size_in_bytes > JOINED_PER_COMMIT_MAX:
                break
            if size + file.file_size_in_bytes > FILE_SIZE and len(group) > 1:
                groups.append(group)
                total, group, size = total + size, [], 0
            group.append(file)
            size += file.file_size_in_bytes
        if len(group) > 1:
            groups.append(group)
            total += size
    return groups


def _joined(table: Any, groups: list[list[Any]]) -> list[Any]:
    """New files with the rows of each group."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    from barnabas.pipeline.lake.data_files import column_ids, read_file

    store = Store(table.location())
    schema = schema_to_pyarrow(table.schema(), include_field_ids=True)
    texts = table_fields(table)
    fields: tuple[PartitionField, ...] = tuple(
        field for text in texts if (field := partition_field(text)) is not None
    )
    found = []
    for group in groups:
        directory = f"{DATA}/joined/{uuid4().hex}"
        task = WriterTask(store, directory, schema.serialize().to_pybytes(), fields, "zstd")
        files = PartitionedFiles(task)
        for file in group:
            name = store.name_of(file.file_path)
            if name is None:
                raise PipelineError(f"{file.file_path} is outside of the table {table.location()}")
            for batch in read_file(store, name, schema, ids=column_ids(schema)):
                files.add(batch)
        files.finish()
        found += [data_file(table, store, each) for each in files.written]
    return found


def _has(table: Any, files: list[Any]) -> bool:
    there = {task.file.file_path for task in table.scan().plan_files()}
    return all(file.file_path in there for file in files)


def expire_snapshots(table: Any, older_s: float, done: Upkeep) -> None:
    """The current snapshot stays, and those of branches and tags."""
    from pyiceberg.exceptions import CommitFailedException

    limit = datetime.now(UTC) - timedelta(seconds=older_s)
    for _ in range(_ATTEMPTS_MAX):
        before = len(table.metadata.snapshots)
        try:
            table.maintenance.expire_snapshots().older_than(limit.replace(tzinfo=None)).commit()
        except CommitFailedException:
            table.refresh()
            continue
        except Exception as problem:
            raise PipelineError(f"snapshots cannot be expired: {answer_of(problem)}") from None
        table.refresh()
        done.expired = before - len(table.metadata.snapshots)
        return


def delete_orphans(table: Any, older_s: float, done: Upkeep) -> None:
    """Files below the table that no snapshot names."""
    store = Store(table.location())
    listed = [
        (name, changed)
        for directory in (DATA, _METADATA)
        for name, _, changed in store.files(directory)
    ]
    table.refresh()  # after the listing: what was committed meanwhile is named
    paths = _named(table)
    named = {store.name_of(path) for path in paths}
    # Of a path that is written in another way, the last part is the same.
    elsewhere = {path.rpartition("/")[2] for path in paths if store.name_of(path) is None}
    limit = time.time() - older_s
    for name, changed in listed:
        if changed > limit or name in named or name.rpartition("/")[2] in elsewhere:
            continue
        if not name.endswith("/"):
            store.delete_file(name)
            done.deleted += 1


def _named(table: Any) -> set[str]:
    """The files of all snapshots, and their metadata."""
    found = {table.metadata_location}
    found |= {entry.metadata_file for entry in table.metadata.metadata_log}
    found |= {each.statistics_path for each in table.metadata.statistics}
    found |= {each.statistics_path for each in table.metadata.partition_statistics}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        found |= {manifest.manifest_path for manifest in snapshot.manifests(table.io)}
    return found | set(table.inspect.all_files()["file_path"].to_pylist())
