"""Pipelines as processes: listed, measured, stopped; and a Spark cluster with its executors."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.spark.specs import order, write
from tests.spark.test_pipelines import read
from tests.spark.topics import committed, create
from tests.support.cache import ROOT
from tests.support.spark import SHORT_LIVED

READY = re.compile(r"spark ready on (spark://127\.0\.0\.1:\d+) \((\d) workers, 1 cores each\)")
WAIT_S = 240


class Here:
    """A directory in which commands run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": str(directory / "state"),
        }

    def started(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "barnabas", "pipeline", *arguments],
            text=True, env=self.environment, cwd=self.directory, **more,
        )  # fmt: skip

    def barnabas(self, *arguments: str) -> tuple[int, str, str]:
        process = self.started(*arguments, stdout=-1, stderr=-1)
        out, err = process.communicate(timeout=WAIT_S)
        return process.returncode, out, err

    def status(self, name: str) -> dict[str, Any]:
        _, out, _ = self.barnabas("status", name, "-J")
        return json.loads(out) if out else {}


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def eventually(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def test_a_pipeline_is_listed_measured_and_stopped_after_its_batch(
    our_broker: Any, topic: str, here: Here
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    spec = {
        "name": topic,
        "kind": "lake",
        "source": {"servers": servers, "topics": [topic]},
        "sink": {"path": str(here.directory / "lake")},
        "run": {"master": "local[1]", "trigger": "500ms", "checkpoint": str(here.directory / "c")},
    }
    (here.directory / "spec.yml").write_text(json.dumps(spec))
    write(servers, topic, [(n, order(n)) for n in range(100)])
    runs = here.started("run", "spec.yml", "--metrics", "127.0.0.1:0", stderr=-1)
    try:
        eventually(lambda: here.status(topic).get("rows") == 100)
        write(servers, topic, [(n, order(n)) for n in range(100, 150)])
        eventually(lambda: here.status(topic)["rows"] == 150)
        entry = here.status(topic)
        assert (entry["state"], entry["pid"], entry["lag"]) == ("running", runs.pid, 0)
        assert entry["batches"] >= 2
        page = urllib.request.urlopen(entry["metrics"], timeout=WAIT_S).read().decode()
        query = f'{{pipeline="{topic}",query="{topic}.lake"}}'
        assert f"barnabas_pipeline_rows_total{query} 150.0" in page
        assert topic in here.barnabas("ls")[1]
        eventually(lambda: committed(servers, topic, topic, 1) == [150])
        code, _, err = here.barnabas("run", "spec.yml")
        assert code == 1
        assert f"pipeline '{topic}' runs already, process {runs.pid}: stop it" in err
        code, out, _ = here.barnabas("stop", topic)
        assert (code, out) == (0, f"{topic} ended after {entry['batches']} batches, 150 rows\n")
        _, err = runs.communicate(timeout=WAIT_S)
        assert runs.returncode == 0
        assert len(err.splitlines()) == 1, err
        assert err.startswith(f"{topic}: stopped, 150 rows in ")
    finally:
        runs.kill()
        runs.communicate()
    assert here.status(topic)["state"] == "ended"
    assert here.barnabas("ls")[1] == ""
    assert topic in here.barnabas("ls", "-a")[1]


@contextmanager
def cluster(here: Here, workers: int = 2) -> Iterator[tuple[subprocess.Popen[str], str]]:
    arguments = ("--workers", str(workers), "--listen", "127.0.0.1:0")
    process = here.started("cluster", "up", *arguments, stdout=-1, stderr=-1)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        ready = READY.search(line)
        assert ready, (line, process.stderr.read() if process.stderr else "")
        assert int(ready[2]) == workers
        yield process, ready[1]
    finally:
        process.kill()
        process.communicate()


def processes_of(address: str) -> list[int]:
    """Of masters, workers and executors that name the address."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        port = address.rpartition(":")[2]
        if "org.apache.spark.deploy" in command and re.search(rf"\b{port}\b", command):
            found.append(int(each.parent.name))
    return found


def test_a_spec_runs_on_a_cluster_or_is_submitted_and_the_package_comes_along(
    our_broker: Any, topic: str, here: Here
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    write(servers, topic, [(n, order(n)) for n in range(20)])
    # A module of the user's, whose function runs in the executors.
    (here.directory / "where.py").write_text(
        "def tell(value):\n"
        "    import barnabas, barnabas.wire.columns as loops, crc32c\n"
        "    return ' '.join([barnabas.__file__, loops.__file__, crc32c.__file__])\n"
        "def add(rows):\n"
        "    from pyspark.sql import functions as f\n"
        "    return rows.select(f.udf(tell)('value').alias('value'))\n"
    )
    with cluster(here) as (process, address):
        for command in ("run", "submit"):
            name = f"{topic}-{command}"
            create(servers, name, 1)
            spec = {
                "name": name,
                "kind": "stream",
                "source": {"servers": servers, "topics": [topic]},
                "transform": "where:add",
                "sink": {"topic": name},
                "run": {
                    "master": address,
                    "checkpoint": str(here.directory / command),
                    "options": {
                        "spark.executor.memory": "512m",
                        "spark.executor.extraJavaOptions": SHORT_LIVED,
                        "spark.cores.max": "1",
                    },
                },
            }
            (here.directory / "spec.yml").write_text(json.dumps(spec))
            code, out, err = here.barnabas(command, "spec.yml")
            assert code == 0, (out, err)
            said, silent = (err, out) if command == "run" else (out, err)
            assert silent == "", (out, err)
            how, *_, last = said.splitlines()
            assert "exactly once" in how, (out, err)
            assert last.startswith(f"{name}: done, 20 rows in 1 batches"), (out, err)
            values = [value.decode() for value, _ in read(servers, name)]
            assert (len(values), len(set(values))) == (20, 1), values
            for place in values[0].split():
                assert "/barnabas-package/" in place
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, err) == (0, "")
    eventually(lambda: not processes_of(address))


def test_clusters_stand_side_by_side_and_end_with_their_starter_or_a_worker(here: Here) -> None:
    with cluster(here, workers=1) as (starter, one), cluster(here, workers=1) as (other, two):
        assert len(processes_of(one)) == len(processes_of(two)) == 2
        starter.kill()
        starter.wait(WAIT_S)
        eventually(lambda: not processes_of(one))
        for pid in processes_of(two):
            if b"worker.Worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        _, err = other.communicate(timeout=WAIT_S)
        assert other.returncode == 1
        assert err.startswith("barnabas: Spark's worker ")
        assert " ended with -9" in err
        eventually(lambda: not processes_of(two))


def test_a_port_that_is_taken_is_one_line(our_broker: Any, here: Here) -> None:
    address = our_broker.bootstrap_servers
    code, _, err = here.barnabas("cluster", "up", "--listen", address)
    assert (code, len(err.splitlines())) == (1, 1)
    assert err.startswith(f"barnabas: {address} cannot be listened on: Address already in use")
