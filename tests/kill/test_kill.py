"""A broker killed at random moments keeps its word; `make kills RUNS=1000` for more of it."""

from random import SystemRandom

import pytest

from tests.kill.ledger import Mark, PartitionLedger, Violation
from tests.kill.rounds import run_all

RUNS = 15


def test_every_acknowledged_record_is_there_after_a_kill_and_none_twice() -> None:
    done = run_all(RUNS, SystemRandom().randrange(1 << 32), say=lambda _: None)
    assert done.acknowledged > RUNS
    assert sum(done.kills.values()) == RUNS


def ledger_with(*marks: Mark) -> PartitionLedger:
    ledger = PartitionLedger("t-0")
    for offset, mark in enumerate(marks):
        ledger.found(offset, mark)
    return ledger


def test_the_ledger_sees_a_loss() -> None:
    ledger = ledger_with(Mark("p", 0))
    ledger.acknowledged(1, Mark("p", 1))
    with pytest.raises(Violation, match="not there"):
        ledger.check_read(2)
    with pytest.raises(Violation, match="where 1 was next"):
        ledger_with(Mark("p", 0), Mark("p", 2))


def test_the_ledger_sees_a_record_twice() -> None:
    with pytest.raises(Violation, match="again"):
        ledger_with(Mark("p", 0), Mark("p", 0))


def test_the_ledger_sees_a_hole_and_another_record_in_the_place() -> None:
    with pytest.raises(Violation, match="offset 3 follows 0"):
        ledger_with(Mark("p", 0)).found(3, Mark("p", 1))
    ledger = ledger_with(Mark("p", 0))
    ledger.acknowledged(1, Mark("p", 1))
    with pytest.raises(Violation, match="acknowledged"):
        ledger.found(1, Mark("q", 0))
    with pytest.raises(Violation, match="acknowledged"):
        ledger.acknowledged(0, Mark("q", 0))
