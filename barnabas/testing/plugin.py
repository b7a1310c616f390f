"""The pytest plugin: fixtures `kafka`, `kafka_session`, `kafka_cluster`, and the mark `kafka`.

pytest loads it through the entry point `barnabas` of group `pytest11`. Always: nothing of a broker
is loaded before a test asks for a fixture, and what is loaded then is loaded as in any program; a
fixture of the same name in the test's own conftest wins.
"""

import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from barnabas.testing.kafka import Kafka

_KAFKA = "_barnabas_kafka"  # where an item keeps the brokers of its fixtures
OPTIONS = ("brokers", "clock", "settings", "process")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    _load_as_in_any_program(pluginmanager)
    group = parser.getgroup("barnabas")
    group.addoption(
        "--kafka-keep",
        action="store_true",
        help="After a failed test, keep its brokers until Enter is pressed (needs -s).",
    )


def _load_as_in_any_program(pluginmanager: pytest.PytestPluginManager) -> None:
    """pytest rewrites the assertions of every package that has a plugin. Of this one that would be
    hundreds of modules: seconds of the first test, and an error now and then where two threads load
    modules at the same time (Python 3.11).
    """
    marked = getattr(getattr(pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("barnabas")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka(brokers=1, clock='running', settings={}, process=False): the brokers of the"
        " fixture `kafka`, from the package barnabas.",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what its brokers have; they still run."""
    report = yield
    running = getattr(item, _KAFKA, None)
    if running and call.when == "call" and report.failed:
        for name, kafka in running.items():
            report.sections.append((f"fixture {name}", kafka.report()))
        if item.config.getoption("kafka_keep"):
            _keep(item, running)
    return report


def _keep(item: pytest.Item, running: dict[str, "Kafka"]) -> None:
    """Each with a console, which prints its address, or the reason why it cannot be started."""
    import subprocess

    capture: Any = item.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled(), ExitStack() as consoles:
        for name, kafka in running.items():
            print(f"\n{item.name} failed; {name} runs at {kafka.bootstrap_servers}", flush=True)
            console = ["console", "-b", kafka.bootstrap_servers, "--listen", "127.0.0.1:0"]
            started = subprocess.Popen([sys.executable, "-m", "barnabas", *console])
            consoles.enter_context(started)
            consoles.callback(started.terminate)
        try:
            input("Press Enter to go on\n")
        except (EOFError, OSError):
            print("standard input is closed: not kept (use -s)")


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    mark = request.node.get_closest_marker("kafka")
    if mark is None:
        return {}
    unknown = [name for name in mark.kwargs if name not in OPTIONS]
    if mark.args or unknown:
        raise pytest.UsageError(
            f"@pytest.mark.kafka takes {', '.join(OPTIONS)}, by name, not"
            f" {', '.join([*map(repr, mark.args), *unknown])}"
        )
    return dict(mark.kwargs)


def _running(
    request: pytest.FixtureRequest, name: str, options: dict[str, Any]
) -> Iterator["Kafka"]:
    from barnabas.testing.kafka import Kafka

    with Kafka(**options) as kafka:
        item = request.node
        running = getattr(item, _KAFKA, None)
        if running is None:
            running = {}
            setattr(item, _KAFKA, running)
        running[name] = kafka
        try:
            yield kafka
        finally:
            del running[name]


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator["Kafka"]:
    """A fresh broker for this test; `@pytest.mark.kafka(brokers=3)` for a cluster."""
    yield from _running(request, "kafka", _options(request))


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator["Kafka"]:
    """Three fresh brokers for this test."""
    yield from _running(request, "kafka_cluster", {"brokers": 3, **_options(request)})


@pytest.fixture(scope="session")
def kafka_session() -> Iterator["Kafka"]:
    """One broker for all tests of a session (with xdist: of a worker)."""
    from barnabas.testing.kafka import Kafka

    with Kafka() as kafka:
        yield kafka
