"""Which pipelines run here: what the roster says is true, whatever becomes of a run."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.model.errors import Code
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run import roster
from barnabas.pipeline.run.progress import BatchProgress, Progress
from barnabas.pipeline.run.spec import Spec, parse
from tests.waiting import WAIT_S

RUN = """
import signal, sys, threading
from pathlib import Path
from barnabas.pipeline.run.progress import BatchProgress, Progress
from barnabas.pipeline.run.roster import enrolled
from tests.pipeline.run.test_roster import spec

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with enrolled(spec(sys.argv[1]), Path("spec.yml")) as entry:
    progress = Progress()
    entry.follow(progress, None)
    progress.batch(BatchProgress("lake", 0, 500, 250, 7))
    entry.write()
    print("ready", flush=True)
    stop.wait()
    entry.ended(None)
"""


def spec(name: str = "orders-mirror") -> Spec:
    return parse(
        {
            "name": name,
            "kind": "mirror",
            "source": {"servers": "a:1", "topics": ["orders"]},
            "sink": {"servers": "b:1"},
        }
    )


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "barnabas" / "pipelines"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """A process that runs the pipeline `other`."""
    process = subprocess.Popen([sys.executable, "-c", RUN, "other"], stdout=-1, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def test_a_run_reports_its_progress(other: subprocess.Popen[str]) -> None:
    (entry,) = roster.entries()
    assert (entry.name, entry.state, entry.pid) == ("other", "running", other.pid)
    assert (entry.batches, entry.rows, entry.rows_per_s, entry.lag) == (1, 500, 2000, 7)
    assert entry.spec.endswith("/spec.yml")


def test_a_name_runs_once(other: subprocess.Popen[str]) -> None:
    again = f"'other' runs already, process {other.pid}: stop it"
    with pytest.raises(PipelineError, match=again), roster.enrolled(spec("other"), Path("x")):
        pass
    with roster.enrolled(spec("another"), Path("x")):
        assert [entry.name for entry in roster.entries()] == ["another", "other"]


def test_a_run_is_stopped_and_waited_for(other: subprocess.Popen[str]) -> None:
    assert roster.stop("other", 60).state == "ended"
    assert other.wait(WAIT_S) == 0
    assert roster.stop("other", 60).state == "ended"


def test_a_run_that_was_killed_is_said_to_be(other: subprocess.Popen[str]) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait(WAIT_S)
    assert roster.entry_of("other").state == "killed"
    with roster.enrolled(spec("other"), Path("x")) as entry:
        assert roster.entry_of("other").state == "running"
        entry.ended("no broker")
    assert roster.entry_of("other").state == "failed"
    assert roster.entry_of("other").error == "no broker"


def test_a_run_that_does_not_end_in_time_is_reported_as_running(
    other: subprocess.Popen[str],
) -> None:
    other.send_signal(signal.SIGSTOP)
    with pytest.raises(PipelineError, match="still finishing its batch") as late:
        roster.stop("other", 0.1)
    assert late.value.code is Code.REQUEST_TIMED_OUT


def test_a_name_that_is_not_there_gets_the_nearest(state: Path) -> None:
    with pytest.raises(PipelineError, match=r"no pipeline 'orders' runs or ran here$") as none:
        roster.entry_of("orders")
    assert none.value.code is Code.RESOURCE_NOT_FOUND
    with roster.enrolled(spec(), Path("x")):
        pass
    with pytest.raises(PipelineError, match="did you mean orders-mirror"):
        roster.entry_of("orders-miror")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": "x"}', "null"])
def test_rubbish_among_the_files_is_nobody(state: Path, text: str) -> None:
    with roster.enrolled(spec(), Path("x")):
        (state / "rubbish.json").write_text(text)
        other = json.loads((state / "orders-mirror.json").read_text())
        (state / "copy.json").write_text(json.dumps(other))
        assert [entry.name for entry in roster.entries()] == ["orders-mirror"]


def test_rows_that_two_queries_read_count_once() -> None:
    with roster.enrolled(spec(), Path("x")) as entry:
        progress = Progress()
        entry.follow(progress, "http://h:1/metrics")
        progress.batch(BatchProgress("x.errors", 0, 100, 10, 5))
        progress.batch(BatchProgress("x.lake", 0, 90, 10, 15))
        entry.write()
        found = roster.entry_of("orders-mirror")
    assert (found.rows, found.batches, found.lag) == (100, 2, 15)
    assert found.metrics == "http://h:1/metrics"
