"""What somebody should look at, and what not."""

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from barnabas.cli.pipeline import command
from barnabas.pipeline.run import roster
from barnabas.pipeline.run.explain import BEHIND, FAILED, RETRYING, STALLED, alerts_of
from barnabas.pipeline.run.progress import BatchProgress, Progress
from barnabas.pipeline.run.spec import parse

MINUTE_MS = 60_000


def batches(*lags: int) -> Progress:
    progress = Progress()
    for number, lag in enumerate(lags):
        progress.batch(BatchProgress("o.lake", number, 100, 1000, lag))
    return progress


def test_a_pipeline_that_keeps_up_has_no_alert() -> None:
    progress = batches(5000, 4000, 3000, 2000, 1500, 0)
    progress.triggered("o.lake", 0)
    assert alerts_of("o", progress, 1000, MINUTE_MS) == {}


@pytest.mark.parametrize(
    ("lags", "behind"),
    [
        ((2000, 2000, 2000, 2000, 2000, 2000), True),
        ((9000, 2000, 2000, 2000, 2000, 9000), True),
        ((9000, 8000, 7000, 6000, 5000, 4000), False),  # it catches up
        ((100, 200, 300, 400, 500, 600), False),
        ((2000, 3000, 4000), False),  # too early to tell
        ((2000, 2000, 0, 2000, 2000, 2000), False),
    ],
)
def test_a_lag_that_does_not_shrink_is_an_alert(lags: tuple[int, ...], behind: bool) -> None:
    assert (BEHIND in alerts_of("o", batches(*lags), 1000, 0)) is behind


def test_a_query_without_a_sign_of_life_is_an_alert_and_an_idle_one_is_not() -> None:
    progress = batches(0)
    progress.triggered("o.lake", 0)
    assert alerts_of("o", progress, 1000, 10 * MINUTE_MS) == {}
    said = alerts_of("o", progress, 1000, 11 * MINUTE_MS)[STALLED]
    assert said.startswith("o.lake has finished no batch and no look at its topics for 660 s")
    assert alerts_of("o", progress, 5 * MINUTE_MS, 11 * MINUTE_MS) == {}  # it looks rarely
    progress.triggered("o.lake", 10 * MINUTE_MS)
    assert alerts_of("o", progress, 1000, 11 * MINUTE_MS) == {}


def test_an_outage_is_an_alert_until_brokers_answer() -> None:
    progress = batches(0)
    progress.triggered("o.lake", 0)
    progress.retrying = "no answer from 127.0.0.1:9092"
    found = alerts_of("o", progress, 1000, 0)
    assert found == {RETRYING: "it tries again: no answer from 127.0.0.1:9092"}
    progress.attempt_began()
    assert alerts_of("o", progress, 1000, 100 * MINUTE_MS) == {}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def asked(*names: str) -> tuple[int, list[dict[str, str]]]:
    done = CliRunner().invoke(command, ["alerts", *names, "-J"], standalone_mode=False)
    return done.return_value, [json.loads(line) for line in done.stdout.splitlines()]


def test_the_command_exits_with_1_if_there_is_an_alert() -> None:
    spec = parse(
        {
            "name": "orders",
            "kind": "mirror",
            "source": {"servers": "a:1", "topics": ["orders"]},
            "sink": {"servers": "b:1"},
            "run": {"trigger": "1s"},
        }
    )
    assert asked() == (0, [])
    with roster.enrolled(spec, Path("x")) as entry:
        progress = Progress()
        entry.follow(progress, None)
        assert asked("orders") == (0, [])
        progress.retrying = "no answer"
        entry.write()
        assert [each["alert"] for each in asked("orders")[1]] == [RETRYING]
        path = roster.directory() / "orders.json"
        silent = {**json.loads(path.read_text()), "updated_ms": (time.time() - 600) * 1000}
        path.write_text(json.dumps(silent))
        code, found = asked()
        assert (code, sorted(each["alert"] for each in found)) == (1, [RETRYING, STALLED])
        entry.ended("no such table")
    assert asked() == (1, [{"name": "orders", "alert": FAILED, "detail": "no such table"}])
    assert asked("another")[0] == 3
