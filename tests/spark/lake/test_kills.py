"""Two drivers at once, killed at random; on S3 the store too: every row is in the table once, and
nothing is left after cleaning. KILL_ROUNDS=100 for a torture.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.lake.iceberg_catalog import CatalogSpec, open_catalog
from barnabas.pipeline.lake.store import Store
from barnabas.pipeline.lake.upkeep import maintain
from tests.spark.lake.kill_driver import drive, spec_of
from tests.support.cache import ROOT
from tests.waiting import WAIT_S

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")
ROUNDS = int(os.environ.get("KILL_ROUNDS", "2"))
ROWS_PER_ROUND = 600
SEED = int(os.environ.get("SEED", "1"))


def ids(spec: Any) -> list[int]:
    if spec.sink.format == "iceberg":
        options = dict(spec.sink.catalog)
        table = open_catalog(CatalogSpec("default", options)).load_table("sales.orders")
        return sorted(table.scan().to_arrow()["id"].to_pylist())
    import deltalake

    return sorted(deltalake.DeltaTable(spec.sink.path).to_pyarrow_table()["id"].to_pylist())


def stored(spec: Any) -> tuple[set[str], int]:
    """The files below the table, and how many of them the table names."""
    if spec.sink.format == "iceberg":
        options = dict(spec.sink.catalog)
        table = open_catalog(CatalogSpec("default", options)).load_table("sales.orders")
        store = Store(table.location())
        named = len(list(table.scan().plan_files()))
    else:
        import deltalake

        store = Store(spec.sink.path)
        named = len(deltalake.DeltaTable(spec.sink.path).file_uris())
    return {name for name, _, _ in store.files() if name.endswith(".parquet")}, named


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_every_row_is_in_the_table_once(format_: str, place: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    spec = spec_of(format_, place, tmp_path)
    drive(spec, 10, 0)
    for round_ in range(1, ROUNDS + 1):
        until = round_ * ROWS_PER_ROUND
        drivers = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.spark.lake.kill_driver", format_, place,
                 str(tmp_path), str(until), str(2 * round_ + n)],
                cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )
            for n in range(2)
        ]  # fmt: skip
        before = _rows(spec)
        deadline = time.monotonic() + WAIT_S
        while _rows(spec) == before and any(each.poll() is None for each in drivers):
            assert time.monotonic() < deadline
        time.sleep(chance.random())
        for each in drivers:
            each.kill()
        said = [each.communicate()[1] for each in drivers]
        assert not any("Traceback" in each for each in said), said
        found = ids(spec)
        assert found == list(range(len(found)))
    drive(spec, ROUNDS * ROWS_PER_ROUND, 10_000)
    assert ids(spec) == list(range(ROUNDS * ROWS_PER_ROUND))
    maintain(spec, snapshots_s=-1, orphans_s=-1)
    files, named = stored(spec)
    assert len(files) == named
    assert ids(spec) == list(range(ROUNDS * ROWS_PER_ROUND))


def _rows(spec: Any) -> int:
    return len(ids(spec))
