"""Whole pipelines on Spark, into Iceberg and Delta tables, on a disk and on S3."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.lake.iceberg_catalog import CatalogSpec, open_catalog
from barnabas.pipeline.lake.store import Store
from tests.spark.specs import SCHEMA, order, run, spec, write
from tests.spark.test_lake import keyed
from tests.spark.topics import create

pytest.importorskip("pyiceberg")
DAY_S = 86_400


class Iceberg:
    """A pipeline into an Iceberg table, with its catalog in a file."""

    format = "iceberg"

    def __init__(self, place: str, out: Path) -> None:
        self.place = place if place.startswith("s3:") else f"file://{place}"
        self.options = {
            "type": "sql",
            "uri": f"sqlite:///{out}/catalog.db",
            "warehouse": self.place,
        }
        self.sink = {"format": "iceberg", "table": "sales.orders", "catalog": self.options}

    def table(self) -> Any:
        return open_catalog(CatalogSpec("default", self.options)).load_table("sales.orders")

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        found = self.table().scan(selected_fields=columns).to_arrow()
        return sorted(zip(*(found.column(name).to_pylist() for name in columns), strict=True))

    def stored(self) -> int:
        return len([name for name, _, _ in Store(self.table().location()).files("data")])


class Delta:
    """A pipeline into a Delta table."""

    format = "delta"

    def __init__(self, place: str, out: Path) -> None:
        pytest.importorskip("deltalake")
        self.place = f"{place}/orders"
        self.sink = {"format": "delta", "path": self.place}

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        import deltalake

        found = deltalake.DeltaTable(self.place).to_pyarrow_table(columns=list(columns))
        return sorted(zip(*(found.column(name).to_pylist() for name in columns), strict=True))

    def stored(self) -> int:
        names = [name for name, _, _ in Store(self.place).files()]
        return len([name for name in names if name.endswith(".parquet")])


@pytest.fixture(params=["iceberg on disk", "iceberg on S3", "delta on S3"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    kind, _, where = request.param.partition(" on ")
    place = request.getfixturevalue("s3") if where == "S3" else str(tmp_path / "lake")
    return Iceberg(place, tmp_path) if kind == "iceberg" else Delta(place, tmp_path)


def test_every_record_is_in_the_table_once(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path, table: Any
) -> None:
    """Batches that are repeated, a column that comes later, and a checkpoint that is lost."""
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    given = {"sink": table.sink, "errors": {"dlq": f"{topic}.dlq"}}
    found = spec("lake", servers, topic, tmp_path, **given)
    values = [b"bad" if n == 7 else order(n) for n in range(100)]
    write(servers, topic, [(n * DAY_S // 50, value) for n, value in enumerate(values)])
    run(found, spark)
    assert table.stored() == 2  # days
    for done in (tmp_path / "checkpoint" / "lake" / "commits").iterdir():
        done.unlink()
    write(servers, topic, [(100, b'{"id":100,"customer":0,"amount":1,"note":"new"}')])
    more = spec(
        "lake", servers, topic, tmp_path, source={"schema": f"{SCHEMA}, note string"}, **given
    )
    run(more, spark)
    shutil.rmtree(tmp_path / "checkpoint")
    write(servers, topic, [(101, order(101))])
    run(found, spark)
    assert [n for (n,) in table.rows("id")] == [n for n in range(102) if n != 7]
    assert dict(table.rows("id", "note"))[100] == "new"
    assert sorted(n for (n,) in table.rows("_offset")) == [n for n in range(102) if n != 7]
    assert table.stored() == 4


def test_an_iceberg_table_of_latest_rows_has_one_of_each_key(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    table = Iceberg(str(tmp_path / "lake"), tmp_path)
    found = spec(
        "lake", servers, topic, tmp_path, source={"format": "bytes", "schema": None},
        sink={**table.sink, "keep": "latest"},
    )  # fmt: skip
    keyed(servers, topic, [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1")])
    run(found, spark)
    assert table.rows("key", "value") == [(b"a", b"2"), (b"b", b"1"), (b"c", b"1")]
    keyed(servers, topic, [("b", None), ("c", "2"), ("d", "1"), ("d", None)])
    run(found, spark)
    assert table.rows("key", "value") == [(b"a", b"2"), (b"c", b"2")]
    assert len(table.table().metadata.snapshots) == 2
