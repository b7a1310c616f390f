"""examples/declarative, run by Spark's own spark-pipelines: a topic as a source, and as a sink."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from barnabas.pipeline.run.session import spark_home
from tests.spark.specs import order, write
from tests.spark.test_pipelines import read
from tests.spark.topics import committed, create
from tests.support.cache import ROOT
from tests.waiting import PROGRAM_S


def test_tables_are_made_from_a_topic(our_broker: Any, topic: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="pyspark[pipelines] is not installed")
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    create(servers, f"{topic}-large", 1)
    write(servers, topic, [(n, order(n, n % 5, n)) for n in range(100)])
    here = tmp_path / "declarative"
    shutil.copytree(ROOT / "examples" / "declarative", here)
    spec = here / "spark-pipeline.yml"
    text = spec.read_text().replace("localhost:9092", servers)
    spec.write_text(text.replace("/tmp/orders-pipeline", f"{tmp_path}/state"))
    tables = here / "tables" / "orders.py"
    text = tables.read_text().replace('"subscribe", "orders"', f'"subscribe", "{topic}"')
    tables.write_text(text.replace('"large-orders"', f'"{topic}-large"'))
    ended = subprocess.run(
        [os.path.join(spark_home(), "bin", "spark-pipelines"), "run"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        cwd=here,
        timeout=2 * PROGRAM_S,
        check=False,
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    assert "Run is COMPLETED" in said
    rows = pyarrow.dataset.dataset(here / "spark-warehouse" / "orders").to_table(["id"])
    assert sorted(rows["id"].to_pylist()) == list(range(100))
    assert len(read(servers, f"{topic}-large")) == 9
    assert committed(servers, "orders-nightly", topic, 1) == [100]
