"""The log never waits for its reader: lines are dropped instead, and counted."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.system.log_writer import LINES_MAX
from barnabas.system.logs import Logger
from tests.waiting import until

MANY = 5 * LINES_MAX


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BARNABAS_LOG", "BARNABAS_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)


class Pipe:
    """A reader that reads only when told, and a logger that writes to it."""

    def __init__(self) -> None:
        self.reads, writes = os.pipe()
        os.set_blocking(self.reads, False)
        self._stream = os.fdopen(writes, "w")
        self.log = Logger(self._stream)
        self._said = b""

    @property
    def writes(self) -> int:
        return self._stream.fileno()

    def lines(self) -> list[dict[str, object]]:
        """All that has come so far."""
        with suppress(BlockingIOError):
            while piece := os.read(self.reads, 1 << 20):
                self._said += piece
        whole = self._said.rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.reads)
        self.log.close()
        self._stream.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def reported(lines: list[dict[str, object]]) -> int:
    return sum(int(str(line["count"])) for line in lines if line["event"] == "log lines dropped")


def test_a_full_pipe_drops_lines_and_a_reader_that_returns_learns_how_many(pipe: Pipe) -> None:
    for number in range(MANY):
        pipe.log.info("it happened", number=number)
    assert pipe.log.dropped > 0
    until(lambda: len(pipe.lines()) + reported(pipe.lines()) > MANY)
    lines = pipe.lines()
    assert reported(lines) == pipe.log.dropped
    kept = [int(str(line["number"])) for line in lines if line["event"] == "it happened"]
    assert kept[0] == 0
    assert kept == sorted(set(kept)), "in order, each once"
    pipe.log.info("after it")
    until(lambda: pipe.lines()[-1]["event"] == "after it")


def test_the_report_stands_where_the_lines_are_missing(pipe: Pipe) -> None:
    for number in range(MANY):
        pipe.log.info("it happened", number=number)
    until(lambda: "log lines dropped" in [line["event"] for line in pipe.lines()])
    pipe.log.info("after it")
    until(lambda: pipe.lines()[-1]["event"] == "after it")
    events = [line["event"] for line in pipe.lines()]
    assert events[-2:] == ["log lines dropped", "after it"]


def test_a_descriptor_that_does_not_block_loses_nothing_that_fits(pipe: Pipe) -> None:
    os.set_blocking(pipe.writes, False)
    for number in range(LINES_MAX - 1):
        pipe.log.info("it happened", number=number)
    until(lambda: len(pipe.lines()) == LINES_MAX - 1, lambda: len(pipe.lines()))
    assert pipe.log.dropped == 0


def test_a_closed_pipe_counts_every_line(pipe: Pipe) -> None:
    os.close(pipe.reads)
    for _ in range(10):
        pipe.log.info("it happened")
    until(lambda: pipe.log.dropped == 10, lambda: pipe.log.dropped)


def test_a_reader_that_comes_back_to_a_named_pipe_learns_what_it_missed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    os.mkfifo(path)
    first = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(path, "w") as stream:
        log = Logger(stream)
        os.close(first)
        for _ in range(3):
            log.info("nobody reads this")
        until(lambda: log.dropped == 3)
        with open(path, "rb") as second:
            log.info("somebody reads this")
            log.close()
            stream.close()
            dropped, shown = map(json.loads, second.read().splitlines())
    assert dropped["event"] == "log lines dropped"
    assert dropped["count"] == 3
    assert shown["event"] == "somebody reads this"


def test_closing_does_not_wait_for_a_reader_that_does_not_read(pipe: Pipe) -> None:
    for _ in range(MANY):
        pipe.log.info("it happened")
    pipe.log.close()
    pipe.log.info("too late")  # dropped, and nothing else
