"""A table and its topic read as one: no gap, no overlap, also while both grow. Without Spark: its
reader is called as Spark calls it.
"""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from barnabas.pipeline.errors import DataLoss, OptionError, PipelineError
from tests.conftest import _or_skip
from tests.process import running_broker
from tests.spark.lake.union_lake import DAY_MS, Lake
from tests.spark.specs import FIRST_MS
from tests.spark.topics import create
from tests.support.spark import check_spark

pytest.importorskip("pyiceberg")
pytest.importorskip("pyspark")
READS = int(os.environ.get("UNION_READS", "25"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    _or_skip(check_spark)
    with running_broker(tmp_path_factory.mktemp("union"), {"num.partitions": "2"}) as running:
        yield running.bootstrap_servers


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, servers: str, tmp_path: Path) -> Lake:
    topic = f"orders-{uuid4().hex[:8]}"
    create(servers, topic, 2)
    return Lake(servers, topic, tmp_path, request.param)


def test_rows_of_the_table_and_of_the_log_are_each_there_once(lake: Lake) -> None:
    lake.produce(50)
    assert lake.ids() == lake.good()  # there is no table yet
    lake.ingest()
    assert lake.ids() == lake.good()
    lake.produce(50)
    assert lake.ids() == lake.good()
    lake.ingest()
    lake.ingest()
    lake.produce(7)
    assert lake.ids() == lake.good()
    parts = lake.reader().partitions()
    records = sum(part.value.range.size for part in parts if hasattr(part.value, "range"))
    assert records == 7  # the rest is in the table


def test_reads_while_the_pipeline_writes_see_every_record_once(lake: Lake) -> None:
    """Each read sees at least the records that were there when it began, and never one twice."""
    lake.produce(20)
    stop = threading.Event()
    problems: list[BaseException] = []

    def write_on() -> None:
        try:
            while not stop.is_set():
                lake.produce(20)
                lake.ingest()
                stop.wait(lake.batches * 0.005)  # tables with many commits are slower
        except BaseException as problem:
            problems.append(problem)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for _ in range(READS):
            before = lake.good()
            found = lake.ids()
            assert len(found) == len(set(found))
            assert found[: len(before)] == before
            for partition in (0, 1):  # one can be ahead of the other
                ids = [n for n in found if n % 2 == partition]
                assert ids == [n for n in range(partition, ids[-1] + 1, 2) if n % 10 != 9]
    finally:
        stop.set()
        writer.join()
    assert not problems
    assert lake.ids() == lake.good()


def test_filters_read_fewer_files_and_records(lake: Lake) -> None:
    from datetime import UTC, datetime

    from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, LessThan

    lake.produce(400)  # four days
    lake.ingest()
    lake.produce(10)

    def files(*filters: Any) -> int:
        parts = lake.reader(*filters).partitions()
        return sum(len(part.value[1]) for part in parts if isinstance(part.value, tuple))

    assert files() >= 8 if lake.spec.sink.format == "iceberg" else files() >= 4
    day = [datetime.fromtimestamp((FIRST_MS + n * DAY_MS) / 1000, UTC) for n in range(5)]
    one = [GreaterThanOrEqual(("_ts",), day[1]), LessThan(("_ts",), day[2])]
    assert files(*one) <= 4 < files()
    assert [n for n in lake.ids(*one) if n < 400][:90] == [n for n in lake.good() if 100 <= n < 200]
    late = GreaterThanOrEqual(("_offset",), 200)
    assert files(late) == 0
    assert lake.ids(late) == [n for n in lake.good() if n >= 400]
    other = EqualTo(("_partition",), 1)
    assert lake.ids(other) == [n for n in lake.good() if n % 2 == 1]


def test_records_that_are_in_neither_are_an_error(lake: Lake) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    lake.produce(20)
    lake.ingest()
    lake.produce(20)
    admin = AdminClient({"bootstrap.servers": lake.servers})
    for done in admin.delete_records([TopicPartition(lake.topic, 0, 15)]).values():
        done.result()
    with pytest.raises(DataLoss, match=f"{lake.topic}-0: the brokers have deleted records"):
        lake.reader().partitions()


def test_a_topic_that_was_created_again_is_refused(lake: Lake) -> None:
    from confluent_kafka.admin import AdminClient

    lake.produce(20)
    lake.ingest()
    admin = AdminClient({"bootstrap.servers": lake.servers})
    for done in admin.delete_topics([lake.topic]).values():
        done.result()
    create(lake.servers, lake.topic, 2)
    with pytest.raises(DataLoss, match="was deleted and created again"):
        lake.reader().partitions()


def test_options_that_do_not_fit_are_one_line(lake: Lake, tmp_path: Path) -> None:
    from barnabas.pipeline.lake.union import lake_spec

    with pytest.raises(OptionError, match=r"lake: 'none\.yml' is not a file"):
        lake_spec({"lake": "none.yml"})
    with pytest.raises(OptionError, match="subscribe: the spec of the lake sets it"):
        lake.reader(subscribe="orders")
    lake.document["sink"]["keep"] = "latest"
    lake.path.write_text(json.dumps(lake.document))
    with pytest.raises(PipelineError, match="keeps the latest row of each key"):
        lake.reader()
