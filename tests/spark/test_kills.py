"""Pipelines killed at random keep their word; `make pipeline-kills ROUNDS=20` for more of it."""

import pytest

from tests.conftest import _or_skip
from tests.share import SEED
from tests.spark.kills.rounds import PLACES, run_rounds
from tests.support.spark import check_spark

ROUNDS = 2


@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", PLACES)
def test_killed_pipelines_lose_nothing_and_repeat_nothing(place: str) -> None:
    _or_skip(check_spark)
    pytest.importorskip("deltalake")
    done = run_rounds(place, ROUNDS, SEED, say=lambda _: None)
    assert done.records > 0
    assert done.kills.total() == ROUNDS
