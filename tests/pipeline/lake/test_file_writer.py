"""The files that a task writes: one per combination of partition values, none too large."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from barnabas.pipeline.lake import file_writer
from barnabas.pipeline.lake.file_writer import (
    DAY,
    PartitionField,
    WriterTask,
    WrittenFile,
    described,
    write_batches,
)
from barnabas.pipeline.lake.store import Store

DAY_US = 86_400_000_000
SCHEMA = pyarrow.schema(
    [
        ("id", pyarrow.int64()),
        ("shop", pyarrow.string()),
        ("_offset", pyarrow.int64()),
        ("_ts", pyarrow.timestamp("us", tz="UTC")),
    ]
)


def batch(rows: Sequence[tuple[int, str | None, int | None]]) -> pyarrow.RecordBatch:
    """Of id, shop and time in microseconds."""
    return pyarrow.RecordBatch.from_pydict(
        {
            "id": [row[0] for row in rows],
            "shop": [row[1] for row in rows],
            "_offset": [row[0] for row in rows],
            "_ts": [row[2] for row in rows],
        },
        schema=SCHEMA,
    )


def written(out: Path, batches: list[Any], *fields: PartitionField, **given: Any) -> Any:
    task = WriterTask(Store(str(out)), "q/0/a", SCHEMA.serialize().to_pybytes(), fields, **given)
    (found,) = write_batches(task, iter(batches))
    return [described(*row.values()) for row in found.to_pylist()]


def ids(out: Path, file: WrittenFile) -> list[int]:
    found: list[int] = parquet.read_table(out / file.name)["id"].to_pylist()
    return found


def test_each_day_has_a_file_and_rows_without_a_time_have_one_too(tmp_path: Path) -> None:
    """Also a time before 1970, which is not rounded to the wrong day."""
    rows = [(1, "a", 0), (2, "a", DAY_US - 1), (3, "a", DAY_US), (4, "a", None), (5, "a", -1)]
    files = written(tmp_path, [batch(rows), batch([(6, "b", 5)])], PartitionField("_ts", DAY))
    assert {file.values: ids(tmp_path, file) for file in files} == {
        (0,): [1, 2, 6],
        (1,): [3],
        (None,): [4],
        (-1,): [5],
    }
    assert sum(file.rows for file in files) == 6
    for file in files:
        assert file.size == (tmp_path / file.name).stat().st_size
        assert file.metadata().num_rows == file.rows


def test_combinations_of_values_are_kept_apart(tmp_path: Path) -> None:
    rows = [(n, [None, "", "a/b", "ü"][n % 4], (n // 4) * DAY_US) for n in range(8)]
    fields = PartitionField("shop", in_file=False), PartitionField("_ts", DAY)
    files = written(tmp_path, [batch(rows)], *fields)
    assert sorted((file.values[0] or "-", file.values[1]) for file in files) == sorted(
        (shop, day) for shop in ("-", "-", "a/b", "ü") for day in (0, 1)
    )
    assert "shop" not in parquet.read_schema(tmp_path / files[0].name).names


def test_a_file_that_is_large_enough_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writer, "ROW_GROUP_SIZE", 1)
    batches = [batch([(n, "a" * 100, 0)]) for n in range(20)]
    files = written(tmp_path, batches, file_size=2000)
    assert len(files) > 1
    assert sorted(n for file in files for n in ids(tmp_path, file)) == list(range(20))


def test_few_files_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writer, "OPEN_FILES_MAX", 2)
    rows = [(n, "abc"[n % 3], 0) for n in range(9)]
    files = written(tmp_path, [batch([row]) for row in rows], PartitionField("shop"))
    assert sorted(n for file in files for n in ids(tmp_path, file)) == list(range(9))
    assert len(files) == 9


def test_rows_are_collected_into_row_groups_with_bounds(tmp_path: Path) -> None:
    (file,) = written(tmp_path, [batch([(n, "a", n)]) for n in range(50)])
    footer = file.metadata()
    assert footer.num_row_groups == 1
    bounds = footer.row_group(0).column(2).statistics
    assert (bounds.min, bounds.max) == (0, 49)


def test_an_error_leaves_no_file(tmp_path: Path) -> None:
    def batches() -> Any:
        yield batch([(1, "a", 0)])
        raise RuntimeError("the source is gone")

    task = WriterTask(Store(str(tmp_path)), "q", SCHEMA.serialize().to_pybytes())
    with pytest.raises(RuntimeError):
        list(write_batches(task, batches()))
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_store_is_sent_to_tasks_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    store = Store("s3://bucket/a/b")
    sent = pickle.dumps(store)
    assert b"hidden" not in sent
    assert b"127.0.0.1:1" in sent
    assert store.name_of("s3://bucket/a/b/c/d") == "c/d"
    assert store.name_of("s3a://bucket/a/b/c") == "c"
    assert store.name_of("s3://other/a/b/c") is None
