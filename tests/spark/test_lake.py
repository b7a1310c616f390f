"""Lakes as Delta tables: exactly once, joined files, columns that come later, latest rows."""

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.files import ROWS_PER_FILE_MAX
from tests.spark.specs import FIRST_MS, SCHEMA, order, run, spec, write
from tests.spark.topics import create, grow
from tests.waiting import WAIT_S

deltalake: Any = pytest.importorskip("deltalake")
DAY_S = 86_400


def delta(servers: str, topic: str, out: Path, **changed: Any) -> Any:
    sink = {"format": "delta", "path": str(out / "lake"), **changed.pop("sink", {})}
    return spec("lake", servers, topic, out, sink=sink, **changed)


def table(out: Path) -> Any:
    return deltalake.DeltaTable(str(out / "lake"))


def rows(out: Path, *columns: str) -> list[tuple[Any, ...]]:
    found = table(out).to_pyarrow_table(columns=list(columns))
    return sorted(zip(*(found.column(name).to_pylist() for name in columns), strict=True))


def keyed(
    servers: str, topic: str, records: Iterable[tuple[str, str | None]], partition: int = 0
) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for number, (key, value) in enumerate(records):
        producer.produce(
            topic,
            None if value is None else value.encode(),
            key=key.encode(),
            partition=partition,
            timestamp=FIRST_MS + number if partition == 0 else int(time.time() * 1000),
        )
    assert producer.flush(WAIT_S) == 0


def test_a_delta_table_has_every_record_once_however_often_a_batch_is_repeated(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    """Killed after its commit, before Spark noted that the batch is done; and before the commit.
    And at the very beginning, while Spark was writing down the first offsets."""
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    found = delta(servers, topic, tmp_path)
    offsets = tmp_path / "checkpoint" / "lake" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.7b1d.tmp").write_text("v1\n{")
    write(servers, topic, [(n * DAY_S // 50, order(n)) for n in range(100)])
    run(found, spark)
    commits = tmp_path / "checkpoint" / "lake" / "commits"
    for done in commits.iterdir():
        done.unlink()
    write(servers, topic, [(n * DAY_S // 50, order(n)) for n in range(100, 150)])
    run(found, spark)
    assert [number for (number,) in rows(tmp_path, "id")] == list(range(150))
    assert table(tmp_path).metadata().partition_columns == ["date"]
    assert {date.isoformat() for (date,) in rows(tmp_path, "date")} == {
        time.strftime("%Y-%m-%d", time.gmtime(FIRST_MS / 1000 + day * DAY_S)) for day in range(3)
    }
    # What an attempt that was killed has left is no part of the table, and goes.
    (log,) = (tmp_path / "lake" / "_delta_log").glob("*2.json")
    log.unlink()
    for each in ("1", ".1.crc"):
        (commits / each).unlink(missing_ok=True)
    before = set((tmp_path / "lake").glob("*/*/*"))
    run(found, spark)
    assert [number for (number,) in rows(tmp_path, "id")] == list(range(150))
    after = set((tmp_path / "lake").glob("*/*/*"))
    assert len(before) == len(after)
    assert before != after


def test_small_files_are_joined(spark: Any, our_broker: Any, topic: str, tmp_path: Path) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    write(servers, topic, [(n * DAY_S // 60, order(n)) for n in range(120)])
    options = {"maxOffsetsPerTrigger": 12}
    run(delta(servers, topic, tmp_path, source={"options": options}), spark)
    assert len(table(tmp_path).file_uris()) == 2  # days
    assert [number for (number,) in rows(tmp_path, "id")] == list(range(120))


def test_a_batch_has_a_file_per_value_and_none_that_is_too_large(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.pipeline.lake.files.ROWS_PER_FILE_MAX", 40)
    servers = our_broker.bootstrap_servers
    create(servers, topic, 2)
    write(servers, topic, [(n, order(n)) for n in range(100)])
    sink = {"format": "parquet", "partition_by": ["customer"]}
    run(delta(servers, topic, tmp_path, sink=sink), spark)
    assert len(list((tmp_path / "lake").glob("batch=*/customer=0/*.parquet"))) == 3
    assert ROWS_PER_FILE_MAX > 40


def test_columns_that_come_later_are_added_and_keep_their_type(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    write(servers, topic, [(0, order(1))])
    run(delta(servers, topic, tmp_path), spark)
    write(servers, topic, [(1, b'{"id":2,"customer":0,"amount":1,"note":"new"}')])
    more = {"schema": f"{SCHEMA}, note string"}
    run(delta(servers, topic, tmp_path, source=more), spark)
    assert rows(tmp_path, "id", "note") == [(1, None), (2, "new")]
    # A spec that knows less leaves the column as it is.
    write(servers, topic, [(2, order(3))])
    run(delta(servers, topic, tmp_path), spark)
    assert rows(tmp_path, "id", "note") == [(1, None), (2, "new"), (3, None)]
    other = {"schema": f"{SCHEMA}, note long"}
    with pytest.raises(PipelineError, match=r"column note is string in the table .* and long"):
        run(delta(servers, topic, tmp_path, source=other), spark)


def test_values_of_partitions_may_be_anything(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    names = ["plain", "a b", "a/b", "50%", "x=y", "c:d", "ü", "", None]
    values = [json.dumps({"id": n, "shop": name}).encode() for n, name in enumerate(names)]
    write(servers, topic, list(enumerate(values)))
    source = {"schema": "id long, shop string"}
    sink = {"partition_by": ["shop"]}
    run(delta(servers, topic, tmp_path, source=source, sink=sink), spark)
    shops = dict(rows(tmp_path, "id", "shop"))
    assert [shops[n] or None for n in range(len(names))] == [name or None for name in names]


def test_a_table_of_latest_rows_has_one_of_each_key(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    found = delta(
        servers, topic, tmp_path, source={"format": "bytes", "schema": None},
        sink={"keep": "latest"},
    )  # fmt: skip
    keyed(servers, topic, [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1")])
    run(found, spark)
    assert rows(tmp_path, "key", "value") == [(b"a", b"2"), (b"b", b"1"), (b"c", b"1")]
    # A record without a value deletes its key; one that is repeated changes nothing.
    keyed(servers, topic, [("b", None), ("c", "2"), ("d", "1"), ("d", None), ("e", None)])
    run(found, spark)
    assert rows(tmp_path, "key", "value") == [(b"a", b"2"), (b"c", b"2")]
    for done in (tmp_path / "checkpoint" / "lake" / "commits").iterdir():
        done.unlink()
    run(found, spark)
    assert rows(tmp_path, "key", "value") == [(b"a", b"2"), (b"c", b"2")]
    # The topic grows, and keys come to other partitions.
    grow(servers, topic, 2)
    keyed(servers, topic, [("a", "3")], partition=1)
    run(found, spark)
    assert rows(tmp_path, "key", "value") == [(b"a", b"3"), (b"c", b"2")]


def test_a_table_of_latest_rows_has_typed_columns_too_and_takes_new_ones(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    sink = {"keep": "latest"}
    keyed(servers, topic, [("a", order(1).decode()), ("b", order(2).decode())])
    run(delta(servers, topic, tmp_path, sink=sink), spark)
    keyed(servers, topic, [("b", None), ("c", '{"id":3,"note":"new"}')])
    more = {"schema": f"{SCHEMA}, note string"}
    run(delta(servers, topic, tmp_path, sink=sink, source=more), spark)
    assert rows(tmp_path, "_key", "id", "note") == [(b"a", 1, None), (b"c", 3, "new")]
    assert "_deleted" not in [field.name for field in table(tmp_path).schema().fields]
    # Without a key there is no latest.
    write(servers, topic, [(0, order(4))])
    with pytest.raises(Exception, match=f"{topic}-0, offset 4 has no key"):
        run(delta(servers, topic, tmp_path, sink=sink), spark)


def test_a_directory_that_is_something_else_is_not_touched(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    write(servers, topic, [(0, order(1))])
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "file").touch()
    with pytest.raises(PipelineError, match="has files but is not a Delta table"):
        run(delta(servers, topic, tmp_path), spark)
    (tmp_path / "lake" / "file").unlink()
    run(delta(servers, topic, tmp_path), spark)
    with pytest.raises(PipelineError, match=r"has date, not customer: use another path"):
        run(delta(servers, topic, tmp_path, sink={"partition_by": ["customer"]}), spark)


def test_without_the_package_one_line_says_how_to_get_it(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    with pytest.raises(PipelineError, match=r"pip install 'barnabas\[delta\]'"):
        run(delta(servers, topic, tmp_path), spark)
