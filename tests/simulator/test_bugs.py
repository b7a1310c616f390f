"""Bugs that were planted are found: the simulator sees what it is there to see.

A share of them, those that are found soonest; `make sim-bugs` looks for all of them.
"""

import re
from pathlib import Path

import pytest

from tests.simulator.bugs import BUGS
from tests.simulator.run import find_bug

pytestmark = pytest.mark.slow

SEEDS_MAX = 60
SHARE = (
    "does_not_wait_for_others",
    "elects_the_first_replica",
    "follows_marks_ahead",
    "keeps_the_epoch_of_its_predecessor",
    "loads_half_of_the_log",
    "reads_from_the_beginning_again",
    "confirms_acknowledgements_at_once",
    "loads_snapshots_without_their_updates",
)


def test_every_bug_can_be_planted() -> None:
    """What it changes is still there."""
    assert len(BUGS) >= 25
    for bug in BUGS.values():
        with bug.planted():
            pass


def test_the_page_lists_every_bug() -> None:
    page = (Path(__file__).parents[2] / "docs" / "SIMULATOR.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(BUGS)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SHARE)
def test_a_planted_bug_is_found(name: str) -> None:
    assert find_bug(name, SEEDS_MAX) is not None
