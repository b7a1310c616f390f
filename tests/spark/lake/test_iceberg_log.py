"""Iceberg tables on a disk and on S3, without Spark: what the driver does."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake import iceberg
from barnabas.pipeline.lake.batch_commit import CommitUnknown
from barnabas.pipeline.lake.file_writer import DAY, PartitionField
from barnabas.pipeline.lake.iceberg import IcebergLog
from barnabas.pipeline.lake.iceberg_catalog import CatalogSpec, open_catalog
from tests.spark.lake.rows import (
    KEY,
    SCHEMA,
    attempt_of,
    identity,
    remaining_rows,
    rows,
    write,
)

pyiceberg: Any = pytest.importorskip("pyiceberg")
FIELDS = (PartitionField("_ts", DAY),)
TABLE = "sales.orders"


class Catalog:
    """A catalog in a file, with its tables anywhere."""

    def __init__(self, place: str, out: Path) -> None:
        where = place if place.startswith("s3:") else f"file://{place}"
        self.spec = CatalogSpec(
            "default", {"type": "sql", "uri": f"sqlite:///{out}/catalog.db", "warehouse": where}
        )

    def driver(self, pipeline: str = "orders-lake", schema: Any = SCHEMA) -> "Driver":
        return Driver(IcebergLog(self.spec, TABLE, FIELDS, pipeline), schema)

    def table(self) -> Any:
        return open_catalog(self.spec).load_table(TABLE)

    def ids(self, **filters: Any) -> list[int]:
        return sorted(self.table().scan(**filters).to_arrow()["id"].to_pylist())


class Driver:
    """One driver of a pipeline."""

    def __init__(self, log: IcebergLog, schema: Any) -> None:
        self.log = log
        self.log.open(schema)

    def files(self, attempt: Any, batch: Any = None) -> list[Any]:
        batch = remaining_rows(attempt) if batch is None else batch
        directory = f"data/{attempt.directory}"
        return write(self.log.store, directory, batch, FIELDS, self.log.arrow_schema())

    def add(self, start: int, end: int, number: int = 0, query: str = "q") -> bool:
        attempt = attempt_of(self.log, identity(start, end, number, query))
        return attempt is None or self.log.commit(self.files(attempt), attempt)


@pytest.fixture
def catalog(place: str, tmp_path: Path) -> Catalog:
    return Catalog(place, tmp_path)


@pytest.fixture
def on_disk(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "lake"), tmp_path)


def test_rows_are_in_the_table_once_with_any_checkpoint(catalog: Catalog) -> None:
    driver = catalog.driver()
    assert driver.add(0, 10)
    assert driver.add(0, 10)
    assert driver.add(10, 30, 1)
    assert catalog.driver().add(0, 40, 0, "a new checkpoint")
    assert catalog.ids() == list(range(40))
    assert catalog.driver().log.offsets() == {KEY: 40}
    assert catalog.driver("another").add(0, 5)
    assert len(catalog.ids()) == 45
    assert catalog.driver().log.offsets() == {KEY: 40}


def test_the_table_is_partitioned_by_day_and_files_are_skipped(on_disk: Catalog) -> None:
    driver = on_disk.driver()
    driver.add(0, 40)
    table = on_disk.table()
    assert len(list(table.scan().plan_files())) == 4
    one_day = "_ts >= '1970-01-02T00:00:00+00:00' and _ts < '1970-01-03T00:00:00+00:00'"
    assert len(list(table.scan(row_filter=one_day).plan_files())) == 1
    assert on_disk.ids(row_filter=one_day) == list(range(10, 20))
    assert len(list(table.scan(row_filter="_offset >= 35").plan_files())) == 1


def test_a_filter_finds_what_a_full_scan_finds_with_nulls_and_mixed_days(
    on_disk: Catalog,
) -> None:
    driver = on_disk.driver()
    attempt = attempt_of(driver.log, identity(0, 30))
    assert attempt is not None
    batch = rows(0, 30).to_pydict()
    batch["_ts"] = [None if n % 3 == 0 else time for n, time in enumerate(batch["_ts"])]
    files = driver.files(attempt, pyarrow.RecordBatch.from_pydict(batch, schema=SCHEMA))
    assert driver.log.commit(files, attempt)
    assert on_disk.ids(row_filter="_ts is null") == list(range(0, 30, 3))
    assert len(on_disk.ids(row_filter="_ts is not null")) == 20


def test_of_two_drivers_one_is_refused(catalog: Catalog) -> None:
    late, quick = catalog.driver(), catalog.driver()
    attempt = attempt_of(late.log, identity(0, 30))
    assert attempt is not None
    files = late.files(attempt)
    assert quick.add(0, 20)
    assert not late.log.commit(files, attempt)
    assert not late.log.has_attempt(attempt)
    assert late.add(0, 30)
    assert catalog.ids() == list(range(30))


def test_a_commit_whose_answer_was_lost_is_found(
    on_disk: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the attempt stay, and the rows are there once."""
    from pyiceberg.table import Table

    plain = Table._do_commit

    def lost(self: Any, **given: Any) -> None:
        plain(self, **given)
        raise ConnectionError("the answer is lost")

    driver = on_disk.driver()
    attempt = attempt_of(driver.log, identity(0, 20))
    assert attempt is not None
    files = driver.files(attempt)
    monkeypatch.setattr(Table, "_do_commit", lost)
    with pytest.raises(CommitUnknown, match="the answer is lost"):
        driver.log.commit(files, attempt)
    monkeypatch.setattr(Table, "_do_commit", plain)
    assert driver.log.has_attempt(attempt)
    assert driver.add(0, 20)
    assert on_disk.ids() == list(range(20))


def test_a_range_without_rows_moves_the_offsets(on_disk: Catalog) -> None:
    driver = on_disk.driver()
    driver.add(0, 10)
    attempt = attempt_of(driver.log, identity(10, 15, 1))
    assert attempt is not None
    assert driver.log.commit([], attempt)
    assert driver.log.offsets() == {KEY: 15}
    assert driver.add(15, 20, 2)
    assert on_disk.ids() == [*range(10), *range(15, 20)]


def test_others_may_rewrite_files_and_expire_snapshots(on_disk: Catalog) -> None:
    driver = on_disk.driver()
    driver.add(0, 10)
    driver.add(10, 20, 1)
    table = on_disk.table()  # another program joins the files
    old_files = [task.file for task in table.scan().plan_files()]
    joined = write(driver.log.store, "data/x", rows(0, 20), FIELDS, driver.log.arrow_schema())
    new_files = [iceberg.data_file(table, driver.log.store, file) for file in joined]
    assert iceberg.commit_files(table, new_files, old_files, {}, {})
    assert on_disk.driver().log.offsets() == {KEY: 20}
    table = on_disk.table()
    keep = table.current_snapshot().snapshot_id
    old = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != keep]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    driver = on_disk.driver()
    assert driver.log.offsets() == {KEY: 20}
    assert driver.add(0, 30, 0, "new")
    assert on_disk.ids() == list(range(30))


def test_a_table_that_was_rolled_back_is_refused(on_disk: Catalog) -> None:
    driver = on_disk.driver()
    driver.add(0, 10)
    first = on_disk.table().current_snapshot().snapshot_id
    driver.add(10, 20, 1)
    on_disk.table().manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(PipelineError, match=r"sales\.orders was rolled back: .* version 0 .* 1 "):
        driver.add(20, 30, 2)
    on_disk.driver("later").add(0, 10)
    on_disk.table().manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(PipelineError, match="rolled back to a snapshot without rows of later"):
        on_disk.driver("later").add(10, 20, 1)


def test_columns_are_added_and_widened_and_no_other_change_is_made(on_disk: Catalog) -> None:
    small = pyarrow.schema([("id", pyarrow.int32()), *list(SCHEMA)[1:]])
    on_disk.driver(schema=small)
    more = pyarrow.schema([*SCHEMA, ("price", pyarrow.decimal128(10, 2)), ("n", pyarrow.float32())])
    driver = on_disk.driver(schema=more)
    driver.add(0, 5)
    wider = more.set(6, pyarrow.field("price", pyarrow.decimal128(12, 2)))
    wider = wider.set(7, pyarrow.field("n", pyarrow.float64()))
    on_disk.driver(schema=wider)
    types = {field.name: str(field.field_type) for field in on_disk.table().schema().fields}
    assert (types["id"], types["price"], types["n"]) == ("long", "decimal(12, 2)", "double")
    # A spec that knows less, or narrower types, writes what fits.
    on_disk.driver(schema=small).add(5, 8, 1)
    assert on_disk.ids() == list(range(8))
    for column, type_ in (
        ("id", pyarrow.string()),
        ("id", pyarrow.float64()),
        ("price", pyarrow.decimal128(12, 3)),
        ("value", pyarrow.string()),
        ("_topic", pyarrow.binary()),
    ):
        at = wider.get_field_index(column)
        with pytest.raises(PipelineError, match=f"column {column} is .* can only become wider"):
            on_disk.driver(schema=wider.set(at, pyarrow.field(column, type_)))
    with pytest.raises(PipelineError, match="Id differs only in case from id"):
        on_disk.driver(schema=pyarrow.schema([("Id", pyarrow.int64()), *SCHEMA]))


def test_a_table_with_other_partitions_is_refused(on_disk: Catalog) -> None:
    on_disk.driver()
    log = IcebergLog(on_disk.spec, TABLE, (PartitionField("_partition"),), "other")
    with pytest.raises(PipelineError, match=r"has day\(_ts\), not _partition: use another table"):
        log.check(SCHEMA)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (PartitionField("no"), "there is no column 'no'"),
        (PartitionField("id", DAY), r"day\(id\): the column is long: name a timestamp"),
        (PartitionField("value"), "value is binary: name a column of type int"),
    ],
)
def test_a_column_that_cannot_partition_a_table_is_refused(
    on_disk: Catalog, field: PartitionField, said: str
) -> None:
    with pytest.raises(PipelineError, match=said):
        IcebergLog(on_disk.spec, TABLE, (field,), "p").open(SCHEMA)


def test_columns_of_every_type_can_partition_a_table(on_disk: Catalog) -> None:
    fields = (PartitionField("_topic"), PartitionField("_partition"), PartitionField("day"))
    schema = SCHEMA.append(pyarrow.field("day", pyarrow.date32()))
    log = IcebergLog(on_disk.spec, TABLE, fields, "p")
    log.open(schema)
    attempt = attempt_of(log, identity(0, 4))
    assert attempt is not None
    batch = rows(0, 4).append_column("day", pyarrow.array([0, 0, 1, None], pyarrow.date32()))
    files = write(log.store, f"data/{attempt.directory}", batch, fields, log.arrow_schema())
    assert log.commit(files, attempt)
    assert on_disk.ids(row_filter="day = '1970-01-02'") == [2]
    assert on_disk.ids(row_filter="day is null") == [3]
    assert on_disk.ids(row_filter="_topic = 'orders' and _partition = 0") == [0, 1, 2, 3]


def test_other_programs_read_the_table(on_disk: Catalog) -> None:
    """The summary has the keys of Iceberg's own sink for Spark."""
    driver = on_disk.driver()
    driver.add(0, 20)
    summary = on_disk.table().current_snapshot().summary
    assert summary["spark.sql.streaming.queryId"] == "q"
    assert summary["spark.sql.streaming.epochId"] == "0"
    assert json.loads(summary[iceberg.OFFSETS]) == {KEY: 20}
    duckdb = pytest.importorskip("duckdb")
    names = [
        task.file.file_path.removeprefix("file://") for task in on_disk.table().scan().plan_files()
    ]
    (count,) = duckdb.sql(f"select count(*), sum(id) from read_parquet({names})").fetchall()
    assert count == (20, sum(range(20)))


def test_a_catalog_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    missing = CatalogSpec("default", {"type": "rest", "uri": "http://127.0.0.1:1"})
    with pytest.raises(PipelineError, match=r"sink\.catalog: default: .*"):
        IcebergLog(missing, TABLE, FIELDS, "p")
