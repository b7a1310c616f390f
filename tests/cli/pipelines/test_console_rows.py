"""What the console is told about a pipeline: its run, and what its file says."""

import json
from pathlib import Path

import pytest

from barnabas.cli.looking.console import pipeline_rows
from tests.console.test_pipeline_page import entry

SPEC = """
name: {name}
kind: lake
source:
  servers: localhost:9092
  topics: [orders]
  format: json
  schema: id long, customer long
sink:
  path: {path}
errors:
  retries: 2
  retry_topic: orders.retry
  dlq: orders.dlq
run:
  checkpoint: {path}.checkpoint
"""


def test_topics_of_a_pipeline_come_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("yaml")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    runs = tmp_path / "barnabas/pipelines"
    runs.mkdir(parents=True)
    spec = tmp_path / "orders.yml"
    spec.write_text(SPEC.format(name="orders-lake", path=tmp_path / "lake"))
    for name, path in (("orders-lake", spec), ("gone", tmp_path / "gone.yml")):
        (runs / f"{name}.json").write_text(json.dumps(entry(name, spec=str(path))))
    gone, lake = pipeline_rows()
    assert (lake["reads"], lake["retry_topic"], lake["dlq"]) == (
        ["orders"],
        "orders.retry",
        "orders.dlq",
    )
    assert lake["target"] == str(tmp_path / "lake")
    assert lake["row_per_record"]
    assert "reads" not in gone
