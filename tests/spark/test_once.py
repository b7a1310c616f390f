"""Every row once: old checkpoints that are restored, and two drivers of one pipeline."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.model.ids import TopicPartition as At
from barnabas.pipeline.lake import delta_table, parquet
from barnabas.pipeline.lake.data_files import write_data_files
from barnabas.pipeline.lake.files import write_files
from barnabas.pipeline.lake.lake import shaped, write_rows
from barnabas.pipeline.spark.batch_identity import BatchIdentity
from barnabas.pipeline.spark.files import HadoopDirectory, LocalDirectory
from tests.spark.specs import order, run, spec, write
from tests.spark.test_pipelines import read
from tests.spark.topics import create

FORMATS = ("parquet", "delta")


def ids(spark: Any, format_: str, path: Path) -> list[int]:
    if format_ == "parquet":
        return sorted(row.id for row in spark.read.parquet(str(path)).collect())
    deltalake = pytest.importorskip("deltalake")
    found: list[int] = deltalake.DeltaTable(str(path)).to_pyarrow_table()["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_checkpoint_that_is_copied_back_loses_no_row_and_doubles_none(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path, format_: str
) -> None:
    """Batch 1 stands for other records then than it did before."""
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    sink = {"format": format_, "path": str(tmp_path / "lake")}
    found = spec("lake", servers, topic, tmp_path, sink=sink, errors={"dlq": f"{topic}.dlq"})
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "yesterday"

    def records(*numbers: int) -> None:
        write(servers, topic, [(n, b"bad" if n % 10 == 3 else order(n)) for n in numbers])

    records(*range(10))
    run(found, spark)
    shutil.copytree(checkpoint, copy)
    records(*range(10, 20))
    run(found, spark)
    shutil.rmtree(checkpoint)
    copy.rename(checkpoint)
    records(*range(20, 30))
    run(found, spark)
    assert ids(spark, format_, tmp_path / "lake") == [n for n in range(30) if n % 10 != 3]
    dead = read(servers, f"{topic}.dlq")
    assert sorted(int(headers["barnabas.origin.offset"]) for _, headers in dead) == [3, 13, 23]


class Drivers:
    """Two drivers of one query, on one table: while the first writes its files, the second one
    writes a whole batch.
    """

    def __init__(self, spark: Any, out: Path, format_: str) -> None:
        self.spark = spark
        self.found = spec(
            "lake", "localhost:1", "orders", out, sink={"format": format_, "path": str(out)}
        )
        columns = (
            "cast('k' as binary) as key, struct(id, id as customer, id as amount) as data,"
            " cast(null as string) as error, cast('v' as binary) as value, 'orders' as topic,"
            " 0 as partition, id as offset, timestamp_seconds(1700000000) as timestamp"
        )
        self.rows = spark.range(30, numPartitions=1).selectExpr(*_split(columns))
        self.format = format_
        self.directory = LocalDirectory(str(out))

    def driver(self) -> Any:
        if self.format == "parquet":
            return parquet.ParquetTable(self.found, self.directory)
        return delta_table.DeltaTable(self.found)

    def write(self, table: Any, number: int, start: int, end: int) -> None:
        at = At("orders", 0)
        identity = BatchIdentity("q", number, {at: start}, {at: end}, {"orders": "id"})
        batch = self.rows.where(f"offset >= {start} and offset < {end}")
        write_rows(table, batch, lambda rows: shaped(self.found, rows), identity)


def _split(columns: str) -> list[str]:
    parts, depth = [""], 0
    for letter in columns:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def interleaved(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None], *, when: str
) -> None:
    """`meanwhile` runs before or after the files of the first attempt are written."""
    begun: list[int] = []

    def around(plain: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any) -> Any:
            first = not begun
            begun.append(1)
            if first and when == "before":
                meanwhile()
            found = plain(*args)
            if first and when == "after":
                meanwhile()
            return found

        return write

    monkeypatch.setattr(parquet, "write_files", around(write_files))
    monkeypatch.setattr(delta_table, "write_data_files", around(write_data_files))


@pytest.mark.parametrize("format_", FORMATS)
def test_two_drivers_on_one_batch_write_it_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    """Both have planned batch 0, and not up to the same offset. The late one must not delete, nor
    move into, what the other has added.
    """
    pytest.importorskip("deltalake")
    out = tmp_path / "lake"
    both = Drivers(spark, out, format_)
    late, quick = both.driver(), both.driver()
    interleaved(monkeypatch, lambda: both.write(quick, 0, 0, 20), when="after")
    both.write(late, 0, 0, 30)
    assert ids(spark, format_, out) == list(range(30))
    # The other way round: what the quick one plans next is there already.
    both.write(quick, 1, 20, 25)
    both.write(late, 0, 0, 30)
    assert ids(spark, format_, out) == list(range(30))
    attempts = list(out.glob("q/*/*"))
    hidden = list(out.glob("_unfinished/*"))
    assert (len(attempts), hidden) == (2 if format_ == "delta" else 0, [])


@pytest.mark.parametrize("format_", FORMATS)
def test_a_driver_that_was_overtaken_before_it_wrote_has_nothing_to_add(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    pytest.importorskip("deltalake")
    out = tmp_path / "lake"
    both = Drivers(spark, out, format_)
    late, quick = both.driver(), both.driver()
    interleaved(monkeypatch, lambda: both.write(quick, 0, 0, 30), when="before")
    both.write(late, 0, 0, 20)
    assert ids(spark, format_, out) == list(range(30))


def test_a_directory_of_hadoops_is_renamed_once_too(spark: Any, tmp_path: Path) -> None:
    """As on HDFS, by the same calls; here they go to a disk."""
    jvm = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(None, None, f"{tmp_path}/a [1] %20")
    directory = HadoopDirectory(spark, path)
    for name in ("one", "two"):
        directory.write(f"{name}/file", name)
    directory.write("one/file", "again")
    assert directory.rename_new("one", "there")
    assert not directory.rename_new("two", "there")
    assert (directory.read("there/file"), directory.read("none")) == ("again", None)
    assert [name for name in directory.names() if not name.endswith(".crc")] == ["there", "two"]
    directory.delete("two")
    assert directory.names("two") == []
