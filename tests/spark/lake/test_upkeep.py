"""Upkeep of tables: files joined, snapshots expired, orphans deleted; rows and offsets stay."""

import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.lake import upkeep
from barnabas.pipeline.lake.upkeep import Upkeep, delete_orphans, expire_snapshots, join_small_files
from tests.spark.lake.rows import KEY, attempt_of, identity
from tests.spark.lake.test_iceberg_log import Catalog

pytest.importorskip("pyiceberg")


@pytest.fixture
def catalog(place: str, tmp_path: Path) -> Catalog:
    return Catalog(place, tmp_path)


def filled(catalog: Catalog, batches: int) -> Any:
    driver = catalog.driver()
    for n in range(batches):
        assert driver.add(n * 5, n * 5 + 5, n)
    return driver


def names(catalog: Catalog) -> list[str]:
    return [task.file.file_path for task in catalog.table().scan().plan_files()]


def test_small_files_of_a_day_are_joined(catalog: Catalog) -> None:
    driver = filled(catalog, 6)
    done = Upkeep()
    join_small_files(catalog.table(), done)
    assert (done.joined, done.into, len(names(catalog))) == (6, 3, 3)
    assert catalog.ids() == list(range(30))
    assert driver.log.offsets() == {KEY: 30}
    one_day = "_ts >= '1970-01-02T00:00:00+00:00' and _ts < '1970-01-03T00:00:00+00:00'"
    assert len(list(catalog.table().scan(row_filter=one_day).plan_files())) == 1
    again = Upkeep()
    join_small_files(catalog.table(), again)
    assert again.joined == 0
    assert driver.add(30, 35, 6)
    assert catalog.ids() == list(range(35))


def test_columns_that_another_program_renamed_keep_their_values(tmp_path: Path) -> None:
    """Files have the old name, and Iceberg knows columns by their ids."""
    catalog = Catalog(str(tmp_path / "lake"), tmp_path)
    filled(catalog, 2)
    table = catalog.table()
    with table.update_schema() as update:
        update.rename_column("id", "number")
    done = Upkeep()
    join_small_files(catalog.table(), done)
    assert (done.joined, done.into) == (2, 1)
    assert sorted(catalog.table().scan().to_arrow()["number"].to_pylist()) == list(range(10))


def test_no_file_is_deleted_that_the_table_names_in_another_way(tmp_path: Path) -> None:
    catalog = Catalog(f"{tmp_path}//lake/../lake", tmp_path)
    filled(catalog, 2)
    delete_orphans(catalog.table(), -1, Upkeep())
    assert catalog.ids() == list(range(10))


def test_what_no_snapshot_names_is_deleted_but_not_what_is_being_written(catalog: Catalog) -> None:
    driver = filled(catalog, 4)
    join_small_files(catalog.table(), Upkeep())
    attempt = attempt_of(driver.log, identity(20, 25, 4))
    assert attempt is not None
    files = driver.files(attempt)  # of a batch that is slow
    store = driver.log.store

    def stored() -> set[str]:
        return {name for name, _, _ in store.files("data") if name.endswith(".parquet")}

    before = stored()
    done = Upkeep()
    expire_snapshots(catalog.table(), 0, done)
    assert done.expired == 4
    delete_orphans(catalog.table(), 3600, done)
    assert (done.deleted, stored()) == (0, before)  # all of them are young
    assert driver.log.commit(files, attempt) or driver.log.commit(files, attempt)
    delete_orphans(catalog.table(), -1, done)
    named = {store.name_of(path) for path in names(catalog)}
    assert stored() == named
    assert catalog.ids() == list(range(25))
    assert driver.add(25, 30, 5)
    assert catalog.ids() == list(range(30))


def test_a_commit_of_the_pipeline_meanwhile_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(str(tmp_path / "lake"), tmp_path)
    driver = filled(catalog, 4)
    plain = upkeep._joined
    begun: list[int] = []

    def slow(*args: Any) -> Any:
        found = plain(*args)
        if not begun:
            begun.append(1)
            assert driver.add(20, 25, 4)
        return found

    monkeypatch.setattr(upkeep, "_joined", slow)
    join_small_files(catalog.table(), Upkeep())
    assert catalog.ids() == list(range(25))
    assert driver.log.offsets() == {KEY: 25}


def test_a_commit_stays_fast_with_many_snapshots(tmp_path: Path) -> None:
    """A share of the thousand snapshots that a table may have before they expire."""
    catalog = Catalog(str(tmp_path / "lake"), tmp_path)
    driver = filled(catalog, 40)
    begun_s = time.process_time()  # CPU: other processes make no difference
    assert driver.add(200, 205, 40)
    assert time.process_time() - begun_s < 2
