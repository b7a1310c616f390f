"""Stores and tables as they are at work: other writers, expired credentials, nulls. Each is one
line or works; no row is lost or twice.
"""

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake import batch_commit
from barnabas.pipeline.lake.batch_commit import write_batch
from tests.conftest import _or_skip
from tests.spark.kills.truth import iceberg_table
from tests.spark.lake.kill_driver import drive, spec_of, table_of
from tests.spark.lake.rows import AT, SCHEMA, identity, rows
from tests.support.s3 import BUCKET, S3Server, versitygw

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")
FORMATS = pytest.mark.parametrize("format_", ["iceberg", "delta"])


def append(spec: Any, start: int, end: int) -> None:
    """As another program does, which knows nothing of this pipeline."""
    if spec.sink.format == "iceberg":
        other = table_of(replace(spec, name=f"other-{start}"))
        batch = identity(start, end, 0, f"other-{start}")
        write_batch(other, batch, SCHEMA, lambda begin: rows(begin[AT], end))
    else:
        import deltalake

        found = pyarrow.Table.from_batches([rows(start, end)])
        deltalake.write_deltalake(spec.sink.path, found, mode="append")


def contents(spec: Any, where: str | None = None) -> list[int]:
    if spec.sink.format == "iceberg":
        sink = {"table": spec.sink.table, "catalog": dict(spec.sink.catalog)}
        table = iceberg_table(sink)
        scan = table.scan() if where is None else table.scan(row_filter=where)
        return sorted(scan.to_arrow()["id"].to_pylist())
    import deltalake

    return sorted(deltalake.DeltaTable(spec.sink.path).to_pyarrow_table()["id"].to_pylist())


@FORMATS
def test_another_program_may_add_rows_between_batches(format_: str, tmp_path: Path) -> None:
    spec = spec_of(format_, str(tmp_path / "lake"), tmp_path)
    drive(spec, 30, 1)
    append(spec, 1000, 1010)
    drive(spec, 60, 2)  # from another checkpoint: it continues where it ended
    assert contents(spec) == [*range(60), *range(1000, 1010)]


def test_a_program_that_commits_all_the_time_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_commit, "ATTEMPTS_MAX", 2)
    spec = spec_of("iceberg", str(tmp_path / "lake"), tmp_path)
    drive(spec, 10, 1)
    table = table_of(spec)
    table.prepare(SCHEMA)
    commit, others = table.commit, count(1000)

    def late(files: Any, attempt: Any) -> bool:
        append(spec, (at := next(others)), at + 1)
        return bool(commit(files, attempt))

    table.commit = late
    with pytest.raises(PipelineError, match="does another program write to this table") as refused:
        write_batch(table, identity(10, 20, 1, "q"), SCHEMA, lambda begin: rows(begin[AT], 20))
    assert len(str(refused.value).splitlines()) == 1
    assert [n for n in contents(spec) if n < 1000] == list(range(10))
    drive(spec, 20, 2)
    assert [n for n in contents(spec) if n < 1000] == list(range(20))


@FORMATS
def test_credentials_that_expire_are_one_line_and_no_row_is_lost(
    format_: str, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(format_, s3, tmp_path)
    drive(spec, 30, 1)
    with monkeypatch.context() as expired:
        expired.setenv("AWS_SECRET_ACCESS_KEY", "expired")
        with pytest.raises(PipelineError, match="credentials of this process, or they have") as on:
            drive(spec, 60, 2)
        (line,) = str(on.value).splitlines()
        assert "\x1b" not in line
        assert "expired'" not in line
    drive(spec, 60, 3)
    assert contents(spec) == list(range(60))


@FORMATS
def test_a_store_that_is_down_is_one_line_and_no_row_is_lost(
    format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _or_skip(versitygw)
    server = S3Server(tmp_path / "s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    server.start()
    try:
        spec = spec_of(format_, f"s3://{BUCKET}/lake", tmp_path)
        drive(spec, 30, 1)
        table = table_of(spec)
        table.prepare(SCHEMA)
        server.kill()
        with pytest.raises(PipelineError, match=r"sink\.") as refused:
            write_batch(table, identity(30, 40, 1, "q"), SCHEMA, lambda begin: rows(begin[AT], 40))
        assert len(str(refused.value).splitlines()) == 1
        with pytest.raises(PipelineError, match=r"sink\.") as refused:
            table.state(identity(30, 40, 1, "q"))
        assert len(str(refused.value).splitlines()) == 1
        server.start()
        drive(spec, 60, 2)
        assert contents(spec) == list(range(60))
    finally:
        server.stop()


def test_rows_without_a_value_in_the_partition_column_are_found_by_any_filter(
    tmp_path: Path,
) -> None:
    spec = spec_of("iceberg", str(tmp_path / "lake"), tmp_path)
    drive(spec, 30, 1)
    table = table_of(spec)
    table.prepare(SCHEMA)

    def without_times(begin: Any) -> Any:
        found = rows(begin[AT], 50)
        times = pyarrow.array(
            [None if n % 2 else n for n in range(found.num_rows)], SCHEMA.field("_ts").type
        )
        return found.set_column(found.schema.get_field_index("_ts"), SCHEMA.field("_ts"), times)

    write_batch(table, identity(30, 50, 1, "q"), SCHEMA, without_times)
    assert contents(spec) == list(range(50))
    assert contents(spec, "_ts is null") == list(range(31, 50, 2))
    assert len(contents(spec, "_ts is not null")) == 40
