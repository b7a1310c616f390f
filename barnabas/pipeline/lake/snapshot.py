"""A table at one moment: its files, and the offsets up to which it has rows.

In: a spec of a lake, bounds. Out: the files that may have rows within the bounds.
Always: files and offsets are of the same commit, so that a reader that continues at these offsets
misses no row and reads none twice.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.pruning import Bounds
from barnabas.pipeline.lake.store import Store
from barnabas.pipeline.run.spec import LATEST, Spec


@dataclass(frozen=True)
class TableFile:
    """A file of a table. `constants`: columns that are not in the file."""

    name: str
    size: int
    constants: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class TableSnapshot:
    """`done`: by `partition_key`. `topic_ids`: of the topics that were read."""

    version: int
    store: Store
    files: list[TableFile] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)


def check_readable(spec: Spec) -> None:
    if spec.kind != "lake" or spec.sink.format not in ("delta", "iceberg"):
        raise PipelineError(
            f"lake: {spec.name} is not a lake in Delta or Iceberg: it cannot be read as one with"
            " its topics"
        )
    if spec.sink.keep == LATEST:
        raise PipelineError(
            f"lake: {spec.name} keeps the latest row of each key: read the table by itself"
        )


def row_count(spec: Spec) -> int | None:
    """How many rows a table in Delta or Iceberg has, from its metadata; None if it is unknown."""
    if spec.kind != "lake" or spec.sink.format not in ("delta", "iceberg"):
        return None
    if spec.sink.format == "iceberg":
        from barnabas.pipeline.lake.iceberg_table import iceberg_log

        table = iceberg_log(spec)
        current = table.table.current_snapshot() if table.exists() else None
        if current is None:
            return 0
        total = str((current.summary or {}).get("total-records", ""))
        return int(total) if total.isdecimal() else None
    from barnabas.pipeline.lake.delta import DeltaLog

    log = DeltaLog(Store(str(spec.sink.path)), list(spec.sink.partition_by), spec.name)
    counts: list[Any] = (
        [each.get("num_records") for each in log.add_actions()] if log.exists() else []
    )
    return None if None in counts else sum(counts)


def snapshot_of(spec: Spec, bounds: Bounds, keys: list[str]) -> TableSnapshot | None:
    """The table now; None if there is none yet. `keys`: of the partitions, by `partition_key`."""
    if spec.sink.format == "iceberg":
        return _iceberg(spec, bounds)
    return _delta(spec, bounds, keys)


def _iceberg(spec: Spec, bounds: Bounds) -> TableSnapshot | None:
    from barnabas.pipeline.lake.iceberg import TOPICS, last_summary, parsed
    from barnabas.pipeline.lake.iceberg_table import iceberg_log

    log = iceberg_log(spec)
    if not log.exists():
        return None
    table, store = log.table, log.store
    state = log.state_of_open_table()
    current = table.current_snapshot()
    if current is None:
        return TableSnapshot(0, store)
    scan = table.scan(snapshot_id=current.snapshot_id, row_filter=_expression(bounds))
    files = []
    for task in scan.plan_files():
        if task.delete_files:
            raise PipelineError(
                f"lake: {log.name} has delete files of another program: compact the table first"
            )
        name = store.name_of(task.file.file_path)
        if name is None:
            raise PipelineError(
                f"lake: {task.file.file_path} is outside of the table {log.name}: read the table by"
                " itself"
            )
        files.append(TableFile(name, task.file.file_size_in_bytes))
    summary: Any = last_summary(table, spec.name) or {}
    return TableSnapshot(
        current.snapshot_id, store, files, dict(state.done), parsed(summary.get(TOPICS))
    )


def _expression(bounds: Bounds) -> Any:
    from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThanOrEqual

    found: Any = AlwaysTrue()
    for name, bound in bounds.items():
        if bound.low is not None:
            found = And(found, GreaterThanOrEqual(name, _literal(bound.low)))
        if bound.high is not None:
            found = And(found, LessThanOrEqual(name, _literal(bound.high)))
    return found


def _literal(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _delta(spec: Spec, bounds: Bounds, keys: list[str]) -> TableSnapshot | None:
    from barnabas.pipeline.lake.delta import DeltaLog

    store = Store(str(spec.sink.path))
    columns = list(spec.sink.partition_by)
    log = DeltaLog(store, columns, spec.name)
    if not log.exists():
        return None
    files = []
    for each in log.add_actions():
        if all(
            bound.may_overlap(_utc(each.get(f"min.{name}")), _utc(each.get(f"max.{name}")))
            for name, bound in bounds.items()
        ):
            constants = tuple((name, each.get(f"partition.{name}")) for name in columns)
            files.append(TableFile(each["path"], each["size_bytes"], constants))
    batch = json.loads(log.last_batch() or "{}")
    ids = batch.get("topic_ids") if isinstance(batch, dict) else None
    return TableSnapshot(
        log.version, store, files, log.offsets(keys), ids if isinstance(ids, dict) else {}
    )


def _utc(value: Any) -> Any:
    from datetime import UTC, datetime

    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value
