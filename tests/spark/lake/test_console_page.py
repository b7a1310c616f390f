"""The console's page of a pipeline and its table have the same sums."""

from pathlib import Path

import pytest

from barnabas.cli.looking import console
from barnabas.client.blocking.admin import Admin
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.config.kinds import Address
from barnabas.console.application import ConsoleOptions
from barnabas.console.serving import application, console_access
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.run import roster
from tests.console.asgi import ask
from tests.process import running_broker
from tests.spark.lake.union_lake import Lake
from tests.spark.topics import create

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")
pytest.importorskip("pyspark")


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
async def test_what_was_read_is_in_the_table_or_bad(
    format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(console, "_COUNT_S", 0.0)
    with running_broker(tmp_path / "broker") as broker:
        servers = broker.bootstrap_servers
        create(servers, "orders", 2)
        lake = Lake(servers, "orders", tmp_path, format_)
        lake.produce(50)
        lake.ingest()
        with Admin({"bootstrap.servers": servers}) as admin:
            read = {TopicPartition("orders", n): Committed(25) for n in range(2)}
            admin.alter_group_offsets(lake.spec.source.group, read)
        lake.produce(20)
        options = ConsoleOptions(
            servers=servers,
            settings={"bootstrap.servers": servers},
            pipelines=console.pipeline_rows,
        )
        app = application(options, console_access(Address("127.0.0.1", 8080), None))
        try:
            with roster.enrolled(lake.spec, lake.path):
                (row,) = (await ask(app.guarded(), "/pipelines.json")).json()
                page = (await ask(app.guarded(), "/pipelines")).text
        finally:
            await app.close()
    assert (row["records"], row["read"], row["waiting"]) == (70, 50, 20)
    bad = 5
    assert row["table_rows"] == row["read"] - bad == len([n for n in lake.good() if n < 50])
    assert "<b>45</b>" in page
