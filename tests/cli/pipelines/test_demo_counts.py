"""A demo whose counts disagree says which, and fails; what it says to try next can be typed."""

import sys
from pathlib import Path

import pytest

from barnabas.cli.demo import called
from barnabas.cli.pipelines.demo import Sent
from barnabas.cli.pipelines.demo_counts import Counted, agreed, tables
from barnabas.pipeline.run import demo

RIGHT = Counted(
    sent=Sent(good=90, bad=10, cents=12_345),
    orders=100,
    windows=90,
    cents=12_345,
    lake=90,
    lake_offsets=90,
    mirror=100,
    same=True,
    dead=10,
    as_one=90,
)
CAUGHT_UP = {"orders-revenue": 0, "orders-lake": 0, "orders-mirror": 0}


def test_counts_that_agree_are_nothing_to_say() -> None:
    assert agreed(RIGHT, CAUGHT_UP) == []
    assert "123.45" in tables(RIGHT, CAUGHT_UP)


def test_each_wrong_count_is_reported() -> None:
    for wrong in (
        RIGHT._replace(orders=89),
        RIGHT._replace(windows=89),
        RIGHT._replace(cents=89),
        RIGHT._replace(lake=89),
        RIGHT._replace(lake_offsets=89),
        RIGHT._replace(mirror=89),
        RIGHT._replace(dead=89),
        RIGHT._replace(as_one=89),
    ):
        (line,) = agreed(wrong, CAUGHT_UP)
        assert ": 89, and " in line
    assert agreed(RIGHT._replace(same=False), CAUGHT_UP)[0].startswith("the mirror differs")
    assert agreed(RIGHT, {**CAUGHT_UP, "orders-lake": 3}) == [
        "lag of orders-lake: 3, and 0 were expected"
    ]


def test_orders_are_the_same_each_time_and_some_are_poison() -> None:
    orders = [demo.order(number) for number in range(2000)]
    assert orders == [demo.order(number) for number in range(2000)]
    assert sum(order.cents is None for order in orders) == 4


def test_what_to_try_next_is_called_as_a_shell_here_finds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = Path(sys.executable)
    monkeypatch.setenv("PATH", str(python.parent))
    assert called(python.name) == python.name
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert called(python.name) == sys.executable
    monkeypatch.chdir(python.parent.parent)
    assert called(python.name) == f"{python.parent.name}/{python.name}"
