"""Delta tables on a disk and on S3, without Spark: what the driver does."""

import json
from typing import Any

import pytest

from barnabas.pipeline.lake.delta import DeltaLog, statistics
from barnabas.pipeline.lake.file_writer import PartitionField
from barnabas.pipeline.lake.store import Store
from tests.spark.lake.rows import KEY, attempt_of, identity, remaining_rows, rows, write

deltalake: Any = pytest.importorskip("deltalake")


class Schema:
    """A schema of Spark, as the log needs it."""

    def json(self) -> str:
        types = {"id": "long", "value": "binary", "_topic": "string", "_partition": "integer",
                 "_offset": "long", "_ts": "timestamp"}  # fmt: skip
        fields = [
            {"name": name, "type": type_, "nullable": True, "metadata": {}}
            for name, type_ in types.items()
        ]
        return json.dumps({"type": "struct", "fields": fields})


class Driver:
    """One driver of a pipeline."""

    def __init__(self, place: str, pipeline: str = "orders-lake") -> None:
        self.store = Store(place)
        self.log = DeltaLog(self.store, [], pipeline)
        self.log.open(Schema())

    def files(self, attempt: Any) -> list[Any]:
        batch = remaining_rows(attempt)
        return write(self.store, attempt.directory, batch, (), batch.schema)

    def add(self, start: int, end: int, number: int = 0, query: str = "q") -> None:
        attempt = attempt_of(self.log, identity(start, end, number, query))
        if attempt is not None:
            assert self.log.commit(self.files(attempt), attempt)


def ids(place: str) -> list[int]:
    found = deltalake.DeltaTable(place).to_pyarrow_table()["id"].to_pylist()
    return sorted(found)


def test_rows_are_in_the_table_once_with_any_checkpoint(place: str) -> None:
    driver = Driver(place)
    driver.log.check(Schema())
    driver.add(0, 10)
    driver.add(0, 10)
    driver.add(10, 30, 1)
    Driver(place).add(0, 40, 0, "a new checkpoint")
    assert ids(place) == list(range(40))
    assert Driver(place).log.offsets([KEY]) == {KEY: 40}
    Driver(place, "another").add(0, 5)
    assert len(ids(place)) == 45


def test_of_two_drivers_one_is_refused(place: str) -> None:
    late, quick = Driver(place), Driver(place)
    of = identity(0, 30)
    attempt = attempt_of(late.log, of)
    assert attempt is not None
    files = late.files(attempt)
    quick.add(0, 20)
    assert not late.log.commit(files, attempt)
    assert not late.log.has_attempt(attempt)
    late.add(0, 30)
    assert ids(place) == list(range(30))


def test_readers_skip_files_by_offset_and_time(place: str) -> None:
    driver = Driver(place)
    driver.add(0, 10)
    driver.add(10, 20, 1)
    found = sorted(driver.log.add_actions(), key=lambda each: int(each["min._offset"]))
    assert [(each["min._offset"], each["max._offset"]) for each in found] == [(0, 9), (10, 19)]
    assert found[0]["max._ts"] < found[1]["min._ts"]


def test_the_bound_of_a_time_is_not_below_it() -> None:
    """Delta's statistics have milliseconds."""
    import tempfile

    with tempfile.TemporaryDirectory() as out:
        (file,) = write(Store(out), "a", rows(0, 5), (), rows(0, 5).schema)
        found = statistics(file)
    assert found["maxValues"]["_ts"] == "1970-01-01T00:00:00.001Z"
    assert found["minValues"]["_ts"] == "1970-01-01T00:00:00.000Z"
    assert found["numRecords"] == 5


def test_partition_values_are_text_in_the_log(place: str) -> None:
    store = Store(place)
    log = DeltaLog(store, ["_partition"], "orders-lake")
    log.open(Schema())
    attempt = attempt_of(log, identity(0, 5))
    assert attempt is not None
    fields = (PartitionField("_partition", in_file=False),)
    assert log.commit(
        write(store, attempt.directory, rows(0, 5), fields, rows(0, 5).schema), attempt
    )
    assert deltalake.DeltaTable(place).to_pyarrow_table()["_partition"].to_pylist() == [0] * 5
