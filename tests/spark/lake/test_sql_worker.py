"""`barnabas sql --lake`: a table and its topic as one table of a query, without Spark."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from barnabas.sql.running import QueryRequest, run_query
from tests.process import running_broker
from tests.spark.lake.union_lake import Lake
from tests.spark.topics import create

for part in ("pyiceberg", "pyspark", "duckdb"):
    pytest.importorskip(part)
from barnabas.pipeline.lake.sql_worker import answer  # noqa: E402 - it needs all three

WORKER = "barnabas.pipeline.lake.sql_worker"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(tmp_path_factory.mktemp("sql"), {"num.partitions": "2"}) as running:
        yield running.bootstrap_servers


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, servers: str, tmp_path: Path) -> Lake:
    topic = f"orders_{uuid4().hex[:8]}"
    create(servers, topic, 2)
    return Lake(servers, topic, tmp_path, request.param)


class Asked:
    """Asks in this process, as the worker of a query does in its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, lake: Lake, query: str, **given: Any) -> dict[str, Any]:
        request = QueryRequest(query, {"bootstrap.servers": lake.servers}, **given)
        request.lakes = [str(lake.path)]
        self._capsys.readouterr()
        answer(asdict(request))
        return gathered(map(json.loads, self._capsys.readouterr().out.splitlines()))


def gathered(lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": [], "plans": [], "error": None}
    for line in lines:
        if isinstance(line.get("rows"), list):
            found["rows"] += line["rows"]
        found["plans"] += [line["plan"]] if "plan" in line else []
        found["error"] = line.get("error", found["error"])
    return found


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(capsys)


def test_a_query_reads_the_table_and_then_the_log_each_record_once(
    asked: Asked, lake: Lake
) -> None:
    lake.produce(50)
    query = f"select count(*), count(distinct id), max(id) from {lake.topic}"
    for step in (lake.ingest, lambda: lake.produce(30), lake.ingest, lambda: lake.produce(7)):
        step()
        good = lake.good()
        found = asked(lake, query)
        assert found["error"] is None
        assert found["rows"] == [[len(good), len(good), good[-1]]]
    by_name = asked(lake, 'select count(*) from "orders-lake" where id is not null')
    assert by_name["rows"] == [[len(lake.good())]]


async def test_the_query_runs_in_a_process_of_its_own(lake: Lake) -> None:
    lake.produce(10)
    lake.ingest()
    lake.produce(3)
    request = QueryRequest(f"select count(*) from {lake.topic}", lakes=[str(lake.path)])
    lines = [line async for line in run_query(request, WORKER)]
    assert gathered(lines)["rows"] == [[len(lake.good())]]


def test_conditions_leave_out_files_and_offsets(asked: Asked, lake: Lake) -> None:
    lake.produce(400)  # four days
    lake.ingest()
    lake.produce(10)
    everything = asked(lake, f"from {lake.topic}", explain=True)
    assert " 0 files" not in everything["plans"][0]["files"]
    assert everything["plans"][0]["records"] == 10
    late = asked(lake, f"select id from {lake.topic} where _offset >= 200", explain=True)
    assert " 0 files" in late["plans"][0]["files"]
    one = f"select id from {lake.topic} where _partition = 1 and _offset < 200 order by id"
    assert asked(lake, one, explain=True)["plans"][0]["records"] == 0
    rows = asked(lake, one)["rows"]
    assert [n for (n,) in rows] == [n for n in lake.good() if n % 2 == 1 and n < 400]


def test_a_table_and_a_topic_can_be_joined(asked: Asked, lake: Lake) -> None:
    lake.produce(20)
    lake.ingest()
    other = f"{lake.topic}_other"
    create(lake.servers, other, 1)
    query = f"select count(*) from {lake.topic} a, {lake.topic} b, {other} c where a.id = b.id"
    assert asked(lake, query)["rows"] == [[0]]
    query = f"select count(*) from {lake.topic} a, {lake.topic} b where a.id = b.id"
    assert asked(lake, query)["rows"] == [[len(lake.good())]]


def test_what_cannot_be_asked_is_one_line(asked: Asked, lake: Lake) -> None:
    lake.produce(5)
    assert "is not followed" in asked(lake, f"from {lake.topic}", follow=True)["error"]
    lake.path.write_text("name: [")
    assert "cannot be read" in asked(lake, f"from {lake.topic}")["error"]
