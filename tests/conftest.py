"""What every test may ask for: a broker, real clients in other languages, a topic name.

A part that this machine does not have skips the tests that need it, with the reason; all reasons
are listed at the end of the run.
"""

import gc
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from barnabas.testing import Kafka
from tests.process import BROKERS, BrokerProcess, running_broker
from tests.secured import SECURED
from tests.secured import begin as begin_secured
from tests.share import IN_FULL, examples
from tests.support.cache import ROOT, Missing, locked
from tests.support.go import Franz
from tests.support.go import franz_go as build_franz_go
from tests.support.install import program
from tests.support.java import Java, java_programs, kafka_tools, streams_programs
from tests.support.java import kafka_lib as fetch_kafka_lib
from tests.support.kafka import KafkaBroker, kafka_for_tests
from tests.support.node import Node
from tests.support.node import kafkajs as fetch_kafkajs
from tests.waiting import WAIT_S

T = TypeVar("T")
Kafka.wait_s = WAIT_S
StartBroker = Callable[..., BrokerProcess]

_topic_numbers = itertools.count()

# How long an example takes says nothing on a machine that does something else.
settings.register_profile(
    "here",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("here")


def _compiled_before_last_edit() -> list[str]:
    return [
        str(source.relative_to(ROOT))
        for source in (path.with_suffix(".py") for path in ROOT.glob("barnabas/**/*.pxd"))
        for built in source.parent.glob(f"{source.stem}.*.so")
        if built.stat().st_mtime < source.stat().st_mtime
    ]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: asked by `make test`, not by `make check`")
    _heed_signals()
    _compile_again()
    _report_less(config)
    begin_secured()
    if config.option.markexpr == "not slow":
        _keep_files_in_memory()
        if not IN_FULL:
            _draw_no_constants()


def _draw_no_constants() -> None:
    """Hypothesis reads every module that is loaded for constants to draw: seconds in each worker,
    and other examples whenever a module changes."""
    providers._get_local_constants = lambda: providers._local_constants


def _keep_files_in_memory() -> None:
    """Thousands of brokers start and stop in the fast tests, and sync their files to nobody's
    benefit: what a loss of power takes is asked of the simulated disk."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def _report_less(config: pytest.Config) -> None:
    """A worker sends four events about a test that passes, and the process that counts them needs
    one: thousands of tests would keep it busy for seconds."""
    worker: Any
    for worker in config.pluginmanager.get_plugins():
        if type(worker).__name__ == "WorkerInteractor" and not config.option.durations:
            worker.sendevent = partial(_send_if_needed, worker.sendevent)


def _send_if_needed(send: Callable[..., None], name: str, **event: Any) -> None:
    report = event.get("data", {})
    passed = name == "testreport" and report["outcome"] == "passed" and report["when"] != "call"
    if not passed and name != "logstart":
        send(name, **event)


def _heed_signals() -> None:
    """A shell's background job ignores SIGINT, nohup's SIGHUP, and so would every program that a
    test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _compile_again() -> None:
    """A compiled module hides its source: tests of an older one would prove nothing."""
    if not _compiled_before_last_edit():
        return
    with locked("compile"):
        if _compiled_before_last_edit():
            compile_again = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
            subprocess.run(compile_again, cwd=ROOT, check=False, capture_output=True)
        if stale := _compiled_before_last_edit():
            raise pytest.UsageError(f"could not compile {', '.join(stale)}: try `make compile`")


_SLOW = re.compile(r"^pytestmark = pytest\.mark\.slow$", re.MULTILINE)


@cache
def _slow(path: Path) -> bool:
    """A test file, or the `__init__.py` of a folder for all that is in it, says so in one line."""
    if path == ROOT or (path.suffix != ".py" and not path.is_dir()):
        return False
    said = path / "__init__.py" if path.is_dir() else path
    return (said.is_file() and _SLOW.search(said.read_text()) is not None) or _slow(path.parent)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m "not slow"` and `-m slow` do not even import the files that they would leave out."""
    return _left_out(collection_path, config.option.markexpr) or None


def _left_out(path: Path, wanted: str) -> bool:
    if wanted == "slow":
        return path.is_file() and not _slow(path)
    return wanted == "not slow" and _slow(path)


def pytest_collection(session: pytest.Session) -> None:
    """In a fresh clone every worker would compile every test: each begins with a part of them,
    and finds the others' when it comes to them."""
    config = session.config
    worker = getattr(config, "workerinput", None)
    all_tests = config.args_source is config.ArgsSource.TESTPATHS
    if worker is None or config.option.markexpr != "not slow" or not all_tests:
        return
    files = [path for path in sorted(ROOT.glob("tests/**/test_*.py")) if not _slow(path)]
    count, number = worker["workercount"], int(worker["workerid"].removeprefix("gw"))
    for path in files[number * len(files) // count : (number + 1) * len(files) // count]:
        # A test that cannot be imported is reported when it is collected.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_itemcollected(item: pytest.Item) -> None:
    """pytest does not look for marks in the `__init__.py` of a folder."""
    if _slow(item.path):
        item.add_marker(pytest.mark.slow)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On several brokers (BROKERS=3), what is about one broker's own files is left out; else what
    takes minutes and is about several. With SECURED=1, what speaks without TLS by design. In
    `make check`, what is only asked in full."""
    if config.option.markexpr == "slow":
        _begin_with_long(items)
    marks = ["several" if BROKERS == 1 else "alone", *(["plain"] if SECURED else [])]
    if config.option.markexpr == "not slow" and not IN_FULL:
        marks.append("full")
    left_out = [item for item in items if any(map(item.get_closest_marker, marks))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


# Few tests of minutes each: the last to begin would run alone.
_LONG = re.compile(
    r"/(cluster|fuzz|kill|os_faults|simulator)/|test_(many_|streams|wheel|workers_killed)"
)


def _begin_with_long(items: list[pytest.Item]) -> None:
    """Then the files with most tests. Needs --no-loadscope-reorder."""
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: (not _LONG.search(item.nodeid), -counts[item.path], item.path))


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: nobody need look for rubbish among them."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section("not run on this machine")
        for reason, count in sorted(reasons.items()):
            terminalreporter.write_line(f"{count:4} x {reason}")


def _or_skip(fetch: Callable[[], T]) -> T:
    try:
        return fetch()
    except Missing as missing:
        pytest.skip(str(missing))


# --- the broker ---------------------------------------------------------------------------------


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name no other test uses."""
    return f"{request.node.originalname[:60]}-{next(_topic_numbers)}"


def broker_with(options: dict[str, str] | None = None) -> Any:
    """`broker = broker_with(OPTIONS)`: one broker for the tests of a module."""

    @pytest.fixture(scope="module", name="broker")
    def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
        directory = tmp_path_factory.mktemp("broker")
        with running_broker(directory, options) as running:
            yield running
        # Large records would otherwise fill the disk with the last three sessions' data.
        shutil.rmtree(directory, ignore_errors=True)

    return fixture


broker = broker_with()  # each test takes topics of its own


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """`start_broker({"option": "value"})`: brokers of a test's own, to stop, kill and restart."""
    with ExitStack() as running:
        numbers = itertools.count()

        def start(options: dict[str, str] | None = None) -> BrokerProcess:
            return running.enter_context(
                running_broker(tmp_path / f"broker-{next(numbers)}", options)
            )

        yield start


# --- other people's programs --------------------------------------------------------------------


@pytest.fixture(scope="session")
def kafka_lib() -> Path:
    """The directory of Apache Kafka's jars."""
    return _or_skip(fetch_kafka_lib)


@pytest.fixture(scope="session")
def java_tools(kafka_lib: Path) -> Java:
    """Kafka's own tools, run by class name."""
    return _or_skip(kafka_tools)


@pytest.fixture(scope="session")
def java_client(kafka_lib: Path) -> Java:
    """The programs of tests/support/java, run by class name."""
    return _or_skip(java_programs)


@pytest.fixture(scope="session")
def kafka_streams() -> Java:
    """The programs of tests/support/streams, run by class name."""
    return _or_skip(streams_programs)


@pytest.fixture(scope="session")
def kafkajs() -> Node:
    """The programs of tests/support/node."""
    return _or_skip(fetch_kafkajs)


@pytest.fixture(scope="session")
def franz_go() -> Franz:
    """The program of tests/support/franz."""
    return _or_skip(build_franz_go)


@pytest.fixture(scope="session")
def kcat() -> str:
    """kcat's path."""
    return _or_skip(lambda: program("kcat"))


@pytest.fixture(scope="session")
def kafka(kafka_lib: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """An Apache Kafka broker to compare with."""
    directory = tmp_path_factory.mktemp("kafka")
    with kafka_for_tests(directory) as running:
        yield running
    shutil.rmtree(directory, ignore_errors=True)
