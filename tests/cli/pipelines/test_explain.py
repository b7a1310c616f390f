"""`barnabas pipeline explain`, on a real broker, of a run that is described by its file."""

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from barnabas.cli.pipeline import command
from tests.process import running_broker

pytestmark = pytest.mark.slow

pytest.importorskip("yaml", reason="PyYAML is not installed")


def test_a_run_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with running_broker(tmp_path / "data", {"num.partitions": "1"}) as broker:
        servers = broker.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers})
        for n in range(5000):
            producer.produce("orders", b"%d" % n)
        assert producer.flush(60) == 0
        spec = tmp_path / "orders.yml"
        spec.write_text(
            json.dumps(
                {
                    "name": "orders",
                    "kind": "lake",
                    "source": {"servers": servers, "topics": ["orders"]},
                    "sink": {"path": str(tmp_path / "lake")},
                    "run": {"checkpoint": str(tmp_path / "state"), "master": "local[2]"},
                }
            )
        )
        entry = {
            "name": "orders", "kind": "lake", "state": "failed", "pid": os.getpid(),
            "spec": str(spec), "servers": servers, "group": "orders", "master": "local[2]",
            "checkpoint": None, "started_ms": 0, "updated_ms": int(time.time() * 1000),
            "error": "the disk is full", "phases_ms": {"files": 10},
        }  # fmt: skip
        roster = tmp_path / "barnabas" / "pipelines"
        roster.mkdir(parents=True)
        (roster / "orders.json").write_text(json.dumps(entry))
        done = CliRunner().invoke(
            command, ["explain", "orders", "--seconds", "0.1"], standalone_mode=False
        )
    assert done.return_value == 1
    assert done.output.splitlines()[0] == "orders: it does not run: the disk is full"
    assert done.output.splitlines()[1].startswith("orders: 5000 records wait; 0 arrive per second")
    done = CliRunner().invoke(command, ["explain", "none"], standalone_mode=False)
    assert done.return_value == 3
