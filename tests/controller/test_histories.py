"""The controller under everything that can happen, from seeds."""

import os

import pytest

from tests.controller.histories import History
from tests.share import IN_FULL

HISTORIES = int(os.environ.get("HISTORIES", "60" if IN_FULL else "30"))
STEPS = 150


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_whatever_happens_the_rules_hold_and_all_work_ends(seed: int) -> None:
    History(seed).run(STEPS)
