"""A topic with the option `lake` has a pipeline, and its retention waits for the table."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.blocking.admin import Admin
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.managed import serving
from barnabas.pipeline.managed.serving import LakeServer
from barnabas.pipeline.managed.tables import check_owner
from barnabas.pipeline.managed.template import managed_spec, parse_template
from barnabas.pipeline.run.roster import RUNNING, entries, stop
from tests.process import BrokerProcess
from tests.spark.kills.truth import iceberg_rows
from tests.spark.lake.test_delta_log import Driver as DeltaDriver
from tests.spark.lake.test_iceberg_log import TABLE, Catalog
from tests.spark.specs import write
from tests.spark.topics import create

pytest.importorskip("pyiceberg")


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_topic_gets_its_table_and_retention_waits_for_it(
    spark: Any, our_broker: BrokerProcess, topic: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(serving, "OFFSETS_EVERY_S", 0.0)
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    write(servers, topic, [(n, b"%d" % n) for n in range(20)])
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path)}
    given = {"servers": servers, "checkpoint": str(tmp_path / "state"), "catalog": catalog}
    said: list[str] = []
    server = LakeServer(parse_template(given), lambda: spark, said.append)
    with Admin({"bootstrap.servers": servers}) as admin:
        server.look()
        assert not any(topic in line for line in said)
        options = {"lake": "iceberg", "lake.lag.ms": "200", "lake.retention.wait": "true"}
        admin.alter_topic(topic, put=options)
        try:
            server.look()
            table = f"topics.{topic.replace('.', '_')}"
            sink = {"table": table, "catalog": catalog}
            until(lambda: len(iceberg_rows(sink, ("value",))) == 20)
            (entry,) = (each for each in entries() if each.name == f"lake-{topic}")
            assert (entry.state, entry.kind) == (RUNNING, "lake")

            def reported() -> bool:
                server.look()
                found = {each.name: each.value for each in admin.topic_options(topic)}
                return found.get("lake.offsets") == "0:20"

            write(servers, topic, [])
            until(reported)
            at = TopicPartition(topic, 0)
            admin.alter_group_offsets(entry.group, {at: Committed(1_000)})
            assert reported()  # what is in the table, whatever the group says
            with pytest.raises(PipelineError, match="set lake=none on its topic"):
                stop(entry.name, 1)
        finally:
            admin.alter_topic(topic, reset=["lake"])
            server.look()
    assert any("does not ask for it any more" in line for line in said)
    until(lambda: not [each for each in entries() if each.state == RUNNING])


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_a_table_with_rows_of_others_is_not_written_to(format_: str, tmp_path: Path) -> None:
    """A user who may alter a topic could name any table of the catalog."""
    catalog = Catalog(str(tmp_path / "lake"), tmp_path)
    given = {"servers": "localhost:9092", "checkpoint": "state", "path": str(tmp_path)}
    template = parse_template({**given, "catalog": catalog.spec.options})
    options = {"lake": format_, "lake.table": TABLE if format_ == "iceberg" else "orders"}
    mine, theirs = (managed_spec(template, topic, options) for topic in ("mine", "theirs"))
    assert mine is not None
    assert theirs is not None
    check_owner(mine[0])
    if format_ == "iceberg":
        assert catalog.driver("lake-mine").add(0, 10)
    else:
        DeltaDriver(str(tmp_path / "orders"), "lake-mine").add(0, 10)
    check_owner(mine[0])
    with pytest.raises(PipelineError, match="has rows that lake-theirs has not written"):
        check_owner(theirs[0])
