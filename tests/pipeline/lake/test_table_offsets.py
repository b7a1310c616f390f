"""Where a new checkpoint begins, without the packages of other formats."""

import json
import sys
from pathlib import Path

import pytest

from barnabas.model.ids import TopicPartition
from barnabas.pipeline.lake.lake import table_offsets
from barnabas.pipeline.run.spec import load


def test_an_iceberg_table_needs_no_package_of_delta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyiceberg", reason="pyiceberg is not installed")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"{tmp_path}/lake",
    }
    document = {
        "name": "orders-lake",
        "kind": "lake",
        "source": {"servers": "localhost:9092", "topics": ["orders"]},
        "sink": {"format": "iceberg", "table": "sales.orders", "catalog": catalog},
        "run": {"checkpoint": f"{tmp_path}/checkpoint"},
    }
    path = tmp_path / "lake.yml"
    path.write_text(json.dumps(document))
    begin = {TopicPartition("orders", 0): 5}
    assert table_offsets(load(path), begin, {}) == begin
