"""Iceberg tables in a REST catalog: refused commits, and answers that are lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.batch_commit import CommitUnknown, write_batch
from barnabas.pipeline.lake.iceberg import IcebergLog
from barnabas.pipeline.lake.iceberg_catalog import CatalogSpec
from tests.spark.lake.kill_driver import InProcessIceberg, spec_of
from tests.spark.lake.rows import AT, SCHEMA, attempt_of, identity, rows
from tests.spark.lake.test_iceberg_log import FIELDS, TABLE, Driver
from tests.support.rest_catalog import RestCatalog, running_rest_catalog

pytest.importorskip("pyiceberg")


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[tuple[RestCatalog, str]]:
    with running_rest_catalog(tmp_path) as found:
        yield found


def driver(address: str) -> Driver:
    spec = CatalogSpec("default", {"type": "rest", "uri": address})
    return Driver(IcebergLog(spec, TABLE, FIELDS, "orders-lake"), SCHEMA)


def ids(catalog: RestCatalog) -> list[int]:
    return sorted(catalog.behind.load_table(TABLE).scan().to_arrow()["id"].to_pylist())


def test_rows_are_in_the_table_once_and_a_late_driver_is_refused(
    rest: tuple[RestCatalog, str],
) -> None:
    catalog, address = rest
    late, quick = driver(address), driver(address)
    attempt = attempt_of(late.log, identity(0, 30))
    assert attempt is not None
    files = late.files(attempt)
    assert quick.add(0, 20)
    assert not late.log.commit(files, attempt)
    assert late.add(0, 30)
    assert late.add(0, 30)
    assert ids(catalog) == list(range(30))


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_commit_whose_answer_is_lost_is_found(rest: tuple[RestCatalog, str], status: int) -> None:
    catalog, address = rest
    first = driver(address)
    attempt = attempt_of(first.log, identity(0, 20))
    assert attempt is not None
    catalog.faults = [status]
    with pytest.raises(CommitUnknown):
        first.log.commit(first.files(attempt), attempt)
    assert first.log.has_attempt(attempt)
    assert first.add(0, 20)
    assert ids(catalog) == list(range(20))


def test_a_batch_survives_lost_answers_and_failures(
    rest: tuple[RestCatalog, str], tmp_path: Path
) -> None:
    """The rows are there once, and every file that the table names can be read."""
    catalog, address = rest
    spec = spec_of("iceberg", str(tmp_path), tmp_path)
    spec.sink.catalog.clear()
    spec.sink.catalog.update({"type": "rest", "uri": address})
    table = InProcessIceberg(spec)
    for number, faults in enumerate([[500], [-500, 504], [-502, -502], [-500, -500, -500]]):
        catalog.faults = list(faults)
        of = identity(number * 10, number * 10 + 10, number)

        def remaining(begin: Any, end: int = of.end[AT]) -> Any:
            return rows(begin[AT], end)

        if len(faults) < 3:
            write_batch(table, of, SCHEMA, remaining)
        else:
            with pytest.raises(PipelineError, match="the commit of batch 3 failed"):
                write_batch(table, of, SCHEMA, remaining)
            write_batch(table, of, SCHEMA, remaining)
    assert ids(catalog) == list(range(40))
    assert catalog.commits == 4
