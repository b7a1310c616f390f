"""What operators install: alerts and panels name metrics that exist, units name commands."""

import configparser
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import barnabas.sync
from barnabas.cli.app import COMMANDS, run
from barnabas.testing import Kafka
from tests.waiting import WAIT_S

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/OPERATIONS.md").read_text()
_NAME = re.compile(r"\bbarnabas_[a-z0-9_]+")


@pytest.fixture(scope="module")
def metrics() -> tuple[set[str], str]:
    with Kafka(3) as kafka:
        kafka.create_topic("orders", replicas=3)
        kafka.produce("orders", ["1"])
        with barnabas.sync.Consumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.getone(timeout=WAIT_S)
            consumer.commit()
            text = "".join(kafka.metrics(broker) for broker in (1, 2, 3))
    return set(re.findall(r"^# TYPE (\S+)", text, re.M)), text


def test_alerts_name_metrics_and_labels_that_exist(metrics: tuple[set[str], str]) -> None:
    names, text = metrics
    (group,) = yaml.safe_load((ROOT / "deploy/prometheus-rules.yml").read_text())["groups"]
    for rule in group["rules"]:
        assert set(_NAME.findall(rule["expr"])) <= names, rule
        assert f"| {rule['alert']} |" in PAGE
        for label in re.findall(r"by \((\w+)\)", rule["expr"]):
            metric = _NAME.findall(rule["expr"])[0]
            assert re.search(rf"^{metric}\{{[^}}]*{label}=", text, re.M), rule
    alerts = {rule["alert"] for rule in group["rules"]}
    assert set(re.findall(r"^\| (Barnabas\w+) \|", PAGE, re.M)) == alerts
    assert 'state="' in text


def test_panels_name_metrics_that_exist(metrics: tuple[set[str], str]) -> None:
    dashboard = json.loads((ROOT / "deploy/grafana-dashboard.json").read_text())
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            assert set(_NAME.findall(target["expr"])) <= metrics[0], panel["title"]


def test_the_unit_and_the_container_name_what_exists() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "deploy/barnabas.service")
    assert unit["Service"]["ExecStart"].split()[1] in COMMANDS
    assert {"Unit", "Service", "Install"} == set(unit.sections())
    text = (ROOT / "deploy/Containerfile").read_text()
    command = json.loads(re.findall(r"^CMD (.*)$", text, re.M)[0])
    assert command[0] in COMMANDS
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.M):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source


def test_a_linter_finds_nothing_in_the_container_file() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    if not hadolint.exists():
        pytest.skip("hadolint is not installed")
    done = subprocess.run(
        [hadolint, "--no-color", ROOT / "deploy/Containerfile"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


def test_the_files_and_commands_of_the_page_exist() -> None:
    for name in re.findall(r"\]\(([^)#:]+)", PAGE):
        assert (ROOT / "docs" / name).exists(), name
    for name in re.findall(r"`barnabas (\w+)", PAGE):
        assert name in COMMANDS, name


def test_doctor_looks_at_this_machine(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--port", "0", "-J"]) in (0, 6)
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert {row["check"] for row in rows} >= {"python", "open files", "data directory", "Java"}
    assert all(row["state"] in ("ok", "note", "problem") for row in rows)
    assert run(["doctor", "--data", "/proc/nowhere"]) == 6
    assert "✘ data directory" in capfd.readouterr().out
