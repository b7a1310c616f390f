"""Queries of one process start a few at a time."""

import threading
from typing import Any

import pytest

from barnabas.pipeline.run import queries
from barnabas.pipeline.run.queries import begun
from barnabas.pipeline.run.stopping import StopRequest
from tests.waiting import WAIT_S, until


class Query:
    """As Spark describes one: its source answers when the test says so."""

    def __init__(self) -> None:
        self.isActive = True
        self.lastProgress: Any = None
        self.status = {"isDataAvailable": False, "message": "Initializing sources"}


@pytest.fixture(autouse=True)
def _one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_starts", threading.BoundedSemaphore(1))


def starting(started: list[Query], stop: StopRequest) -> threading.Thread:
    def start() -> Query:
        started.append(Query())
        return started[-1]

    thread = threading.Thread(target=begun, args=(start, stop))
    thread.start()
    return thread


@pytest.mark.parametrize(
    "answered",
    [
        {"lastProgress": object()},
        {"status": {"isDataAvailable": True, "message": "Getting offsets from orders"}},
        {"status": {"isDataAvailable": False, "message": "Waiting for next trigger"}},
        {"isActive": False},  # it has failed
    ],
)
def test_a_query_starts_when_the_source_of_the_one_before_has_answered(
    answered: dict[str, Any],
) -> None:
    started: list[Query] = []
    threads = [starting(started, StopRequest()) for _ in range(2)]
    for number in range(2):
        until(lambda: len(started) == number + 1)  # noqa: B023
        assert [each.is_alive() for each in threads].count(True) == 2 - number
        for name, value in answered.items():
            setattr(started[number], name, value)
        until(lambda: [each.is_alive() for each in threads].count(False) == number + 1)  # noqa: B023


def test_a_stop_request_does_not_wait_for_a_source() -> None:
    started: list[Query] = []
    stop = StopRequest()
    thread = starting(started, stop)
    until(lambda: len(started) == 1)
    stop.ask()
    thread.join(WAIT_S)
    assert not thread.is_alive()
