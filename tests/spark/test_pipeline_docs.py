"""The specs and the code in docs/PIPELINES.md run as they stand."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.pipeline.run.plan import planned
from barnabas.pipeline.run.running import run_spec
from barnabas.pipeline.run.spec import load
from tests.process import running_broker
from tests.spark.topics import create
from tests.support.cache import ROOT
from tests.waiting import WAIT_S

PAGE = ROOT / "docs" / "PIPELINES.md"


def test_the_page_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    with running_broker(tmp_path / "here") as here, running_broker(tmp_path / "there") as there:
        servers = here.bootstrap_servers
        create(servers, "orders", 2)
        create(servers, "orders-per-minute", 1)
        producer = Producer({"bootstrap.servers": servers})
        for n in range(99):
            order = {"id": n, "customer": n % 5, "amount": n}
            producer.produce("orders", json.dumps(order).encode(), key=b"%d" % n)
        producer.produce("orders", b"poison")
        assert producer.flush(WAIT_S) == 0
        text = PAGE.read_text().replace("localhost:9092", servers)
        text = text.replace("localhost:9093", there.bootstrap_servers)
        # This Spark was started elsewhere.
        text = text.replace("lake/orders", f"{tmp_path}/lake").replace("state/", f"{tmp_path}/")
        text = text.replace('"orders-iceberg.yml"', f'"{tmp_path}/orders-iceberg.yml"')
        # A part of a spec begins with the key that it shows.
        blocks = re.findall(r"```(yaml|python)\n(?!run:)(.*?)```", text, re.DOTALL)
        languages = [language for language, _ in blocks]
        assert languages == ["yaml", "python"] * 3 + ["python", "yaml", "yaml", "python"]
        for language, code in blocks:
            if language == "python":
                exec(compile(code, str(PAGE), "exec"), {"spark": spark})
                continue
            Path("spec.yml").write_text(code)
            spec = load(Path("spec.yml"))
            Path(f"{spec.name}.yml").write_text(code)
            assert len(list(planned(spec))) >= 2
            run_spec(spec, spark=spark, say=lambda line: None)
