"""`barnabas sql --output-file`: results as files, with the types of their columns."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from barnabas import Admin, Producer
from barnabas.sql.saving import save_rows
from tests.cli.command import barnabas
from tests.conftest import broker_with
from tests.process import BrokerProcess

broker = broker_with()

QUERY = 'select "offset", amount, timestamp, key from "{}" order by amount'


@pytest.fixture
async def orders(broker: BrokerProcess, topic: str) -> str:
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic(topic, partitions=1)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(3):
            await producer.send(topic, b'{"amount": %d.5}' % number, key=b"k", timestamp=1_000)
    return topic


def saved(broker: BrokerProcess, topic: str, path: Path, *options: str) -> None:
    ended = barnabas(
        "sql", QUERY.format(topic), "--output-file", str(path), *options,
        servers=broker.bootstrap_servers,
    )  # fmt: skip
    assert (ended.code, ended.out) == (0, ""), ended.err


def check_table(table: pa.Table) -> None:
    assert table.column_names == ["offset", "amount", "timestamp", "key"]
    assert table.schema.field("offset").type == pa.int64()
    assert table.schema.field("amount").type == pa.float64()
    assert pa.types.is_timestamp(table.schema.field("timestamp").type)
    assert table.column("amount").to_pylist() == [0.5, 1.5, 2.5]


@pytest.mark.slow
def test_the_ending_of_a_file_is_its_format(
    broker: BrokerProcess, orders: str, tmp_path: Path
) -> None:
    for ending in ("parquet", "arrow", "csv", "json", "jsonl"):
        saved(broker, orders, tmp_path / f"result.{ending}")
    check_table(parquet.read_table(tmp_path / "result.parquet"))
    check_table(pa.ipc.open_stream((tmp_path / "result.arrow").read_bytes()).read_all())
    rows: list[dict[str, Any]] = json.loads((tmp_path / "result.json").read_text())
    assert [row["amount"] for row in rows] == [0.5, 1.5, 2.5]
    lines = (tmp_path / "result.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    table = list(csv.DictReader(io.StringIO((tmp_path / "result.csv").read_text())))
    assert [row["amount"] for row in table] == ["0.5", "1.5", "2.5"]


@pytest.mark.slow
def test_output_names_the_format_of_any_file(
    broker: BrokerProcess, orders: str, tmp_path: Path
) -> None:
    saved(broker, orders, tmp_path / "result", "--output", "parquet")
    check_table(parquet.read_table(tmp_path / "result"))


@pytest.mark.slow
def test_arrow_goes_to_standard_output(broker: BrokerProcess, orders: str) -> None:
    ended = barnabas(
        "sql", QUERY.format(orders), "--output", "arrow", servers=broker.bootstrap_servers
    )
    assert ended.code == 0, ended.err
    data = ended.out.encode(errors="surrogateescape")
    check_table(pa.ipc.open_stream(data).read_all())


@pytest.mark.slow
def test_a_query_that_fails_leaves_the_older_file(broker: BrokerProcess, tmp_path: Path) -> None:
    path = tmp_path / "result.parquet"
    path.write_bytes(b"older")
    ended = barnabas(
        "sql", "select 1 from no_such_topic", "--output-file", str(path),
        servers=broker.bootstrap_servers,
    )  # fmt: skip
    assert ended.code != 0
    assert "no_such_topic" in ended.err
    assert [each.name for each in tmp_path.iterdir()] == ["result.parquet"]
    assert path.read_bytes() == b"older"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output-file", "result.txt"], "does not say which format"),
        (["--output-file", "/no/such/folder/x.csv"], "No such file or directory"),
        (["--output", "parquet", "--follow"], "not with --follow"),
        (["--output-file", "x.csv", "--follow"], "redirect the output"),
        (["--output-file", "x.arrow", "--explain"], "not with --follow or --explain"),
    ],
)
def test_wrong_options_are_explained(options: list[str], message: str) -> None:
    ended = barnabas("sql", "select 1", *options, servers="127.0.0.1:1")
    assert ended.code != 0
    assert message in ended.err


def test_a_large_result_is_written_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    monkeypatch.setattr("barnabas.sql.saving.GROUP_BYTES", 10_000)
    path = tmp_path / "result.parquet"
    with duckdb.connect(":memory:") as database:
        relation = database.sql("select range as number from range(10_000)")
        assert save_rows(relation, "parquet", os.open(path, os.O_WRONLY | os.O_CREAT)) == 10_000
    found = parquet.ParquetFile(path)
    assert found.metadata.num_row_groups > 1
    assert found.read().column("number").to_pylist() == list(range(10_000))


def test_a_result_without_rows_has_its_columns(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "result.arrow"
    with duckdb.connect(":memory:") as database:
        assert (
            save_rows(
                database.sql("select 1 as one limit 0"),
                "arrow",
                os.open(path, os.O_WRONLY | os.O_CREAT),
            )
            == 0
        )
    table = pa.ipc.open_stream(path.read_bytes()).read_all()
    assert (table.column_names, table.num_rows) == (["one"], 0)
