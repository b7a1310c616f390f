"""Records of a range of time come into the table once, whatever was added before."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.backfill import backfill
from tests.process import BrokerProcess
from tests.spark.kills.truth import delta_rows, iceberg_rows
from tests.spark.specs import FIRST_MS, order, run, spec, write
from tests.spark.topics import create

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_a_range_of_time_is_added_once_beside_what_the_pipeline_writes(
    spark: Any, our_broker: BrokerProcess, topic: str, tmp_path: Path, format_: str
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    write(servers, topic, [(n, order(n)) for n in range(30)])
    sink: dict[str, Any] = {"format": "delta", "path": str(tmp_path / "lake")}
    if format_ == "iceberg":
        catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path)}
        sink = {"format": "iceberg", "table": "sales.orders", "catalog": catalog}
    source = {"starting": "latest"}
    found = spec("lake", servers, topic, tmp_path, sink=sink, source=source)
    run(found, spark)  # begins after the thirty
    write(servers, topic, [(n, order(n)) for n in range(30, 40)])
    run(found, spark)

    def ids() -> list[int]:
        rows = iceberg_rows(sink, ("id",)) if "table" in sink else delta_rows(sink["path"], ("id",))
        return sorted(n for (n,) in rows)

    def fill(since: int, until: int) -> int:
        times = FIRST_MS + since * 1000, FIRST_MS + until * 1000
        return backfill(found, spark, *times, lambda line: None)

    assert ids() == list(range(30, 40))
    assert fill(20, 25) == 5
    assert ids() == [*range(20, 25), *range(30, 40)]
    assert fill(20, 25) == 0
    assert fill(5, 35) == 20  # below, between, and what the pipeline has
    assert ids() == list(range(5, 40))
    write(servers, topic, [(n, order(n)) for n in range(40, 45)])
    assert fill(0, 1000) == 5  # those after the end of the table are the pipeline's
    run(found, spark)
    assert ids() == list(range(45))


def test_rows_that_wait_in_the_retry_topic_are_left_to_the_pipeline(
    spark: Any, our_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    write(servers, topic, [(n, order(n) if n % 4 else b'{"id": %d, "amount": "x"}' % n)
                           for n in range(12)])  # fmt: skip
    sink = {"format": "delta", "path": str(tmp_path / "lake")}
    errors = {"retries": 5, "retry_topic": f"{topic}.retry", "dlq": f"{topic}.dlq"}
    strict = spec("lake", servers, topic, tmp_path, sink=sink, errors=errors)
    run(strict, spark)
    mended = spec(
        "lake", servers, topic, tmp_path, sink=sink, errors=errors, source={"schema": "id long"}
    )

    def ids() -> list[int]:
        return sorted(n for (n,) in delta_rows(sink["path"], ("id",)))

    assert ids() == [n for n in range(12) if n % 4]
    times = FIRST_MS, FIRST_MS + 1_000_000
    assert backfill(mended, spark, *times, lambda line: None) == 0
    run(mended, spark)  # now they are good
    assert ids() == list(range(12))
    assert backfill(mended, spark, *times, lambda line: None) == 0


def test_what_cannot_be_filled_is_one_line(tmp_path: Path) -> None:
    found = spec("lake", "localhost:1", "orders", tmp_path, sink={"path": str(tmp_path / "lake")})
    with pytest.raises(PipelineError, match="is not a lake in Delta or Iceberg"):
        backfill(found, None, 0, 1, print)
