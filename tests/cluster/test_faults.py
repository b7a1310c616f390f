"""A share of the faults of each kind; `make faults ROUNDS=100` for all of them."""

import os

import pytest

from tests.cluster.faults import KINDS, NEEDS_ZOOKEEPER, kinds_for
from tests.cluster.members import ZOOKEEPER
from tests.cluster.rounds import run_all
from tests.share import SEED
from tests.support.cache import Missing
from tests.support.spark import check_spark

ROUNDS = int(os.environ.get("ROUNDS", "1"))
LONG_S = 1800  # a round is seconds, or minutes on a busy machine


def _run(kinds: list[str], keeper: str, brokers: int = 3) -> None:
    done = run_all(ROUNDS, kinds, keeper, SEED, say=print, brokers=brokers)
    assert sum(done.faults.values()) == ROUNDS * len(kinds)
    assert done.acknowledged > 0


@pytest.mark.timeout(LONG_S)
def test_nothing_acknowledged_is_lost_by_any_fault_on_a_file() -> None:
    _run(kinds_for("file"), "file")


@pytest.mark.timeout(LONG_S)
def test_nothing_acknowledged_is_lost_with_five_brokers() -> None:
    _run(["kill", "isolate", "rolling-restart"], "file", brokers=5)


@pytest.mark.timeout(LONG_S)
def test_nothing_acknowledged_is_lost_by_any_fault_on_a_real_zookeeper() -> None:
    pytest.importorskip("kazoo", reason="kazoo is not installed: pip install -e '.[zookeeper]'")
    try:
        check_spark()
    except Missing as missing:
        pytest.skip(str(missing))
    _run(kinds_for(ZOOKEEPER), ZOOKEEPER)


def test_every_kind_of_fault_is_run_somewhere() -> None:
    assert set(kinds_for(ZOOKEEPER)) == set(KINDS)
    assert set(kinds_for("file")) == set(KINDS) - set(NEEDS_ZOOKEEPER)
