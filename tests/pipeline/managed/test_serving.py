"""What the program that runs managed pipelines refuses, and when it ends. Without Spark."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.managed.serving import LakeServer, ManagedPipeline
from barnabas.pipeline.managed.template import managed_spec, parse_template
from tests.process import running_broker
from tests.waiting import WAIT_S

TEMPLATE = parse_template(
    {
        "servers": "localhost:9092",
        "checkpoint": "state",
        "catalog": {"type": "sql", "uri": "sqlite:///lake.db", "warehouse": "lake"},
        "path": "lake",
        "client": {"sasl.username": "me"},
    }
)


def no_spark() -> Any:
    raise AssertionError("Spark must not start")


def running(server: LakeServer, topic: str, **options: str) -> None:
    found = managed_spec(TEMPLATE, topic, options)
    assert found is not None
    server._running[topic] = ManagedPipeline(*found, None, print)


@pytest.mark.parametrize(
    ("topic", "options"),
    [
        ("a_b", {"lake": "iceberg"}),  # the table of a.b is topics.a_b, too
        ("other", {"lake": "iceberg", "lake.table": "topics.a_b"}),
    ],
)
def test_two_topics_cannot_have_one_table(topic: str, options: dict[str, str]) -> None:
    said: list[str] = []
    server = LakeServer(TEMPLATE, no_spark, said.append)
    running(server, "a.b", lake="iceberg")
    server._start(topic, options)
    server._start(topic, options)
    assert said == [
        f"topic {topic}: topics.a_b is the table of lake-a.b: set lake.table to another table"
    ]
    assert list(server._running) == ["a.b"]


def test_the_program_ends_if_spark_has_ended() -> None:
    server = LakeServer(TEMPLATE, no_spark, print)
    context = SimpleNamespace(isStopped=lambda: True)
    java = SimpleNamespace(sc=lambda: context)
    server._spark = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=java))
    with pytest.raises(PipelineError, match="Spark has ended"):
        server.look()


def test_a_login_of_the_template_is_one_of_its_pipelines() -> None:
    found = managed_spec(TEMPLATE, "orders", {"lake": "delta"})
    assert found is not None
    assert found[0].source.options == {"kafka.sasl.username": "me"}


def test_the_program_serves_metrics_and_ends_cleanly(tmp_path: Path) -> None:
    """Without a topic that asks for a table, Spark is not started."""
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    with running_broker(tmp_path / "broker") as broker:
        given = {"servers": broker.bootstrap_servers, "checkpoint": "state", "path": "lake"}
        (tmp_path / "lakes.yml").write_text(json.dumps(given))
        process = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "pipeline", "serve", "lakes.yml",
             "--metrics", "127.0.0.1:0"],
            cwd=tmp_path, env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            servers, _, address = line.strip().partition(", metrics at ")
            assert servers == f"serving the lakes of {broker.bootstrap_servers}"
            page = urllib.request.urlopen(address, timeout=WAIT_S).read().decode()
            assert "# HELP barnabas_pipeline_alert" in page
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()
            process.communicate()
