"""Bugs that were planted are found: the simulator sees what it is there to see.

A share of them, each where it is found soon; `make sim-bugs` looks for all, from the first seed on.
"""

import pytest

from tests.simulator.bugs import BUGS
from tests.simulator.run import find_bug

SEEDS_MAX = 20
SHARE = (
    "commits_what_it_has",
    "elects_the_first_replica",
    "lets_replicas_in_early",
    "takes_repeats_for_new",
    "truncates_to_the_high_watermark",
)


def test_there_are_bugs_enough() -> None:
    assert len(BUGS) >= 25


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SHARE)
def test_a_planted_bug_is_found(name: str) -> None:
    assert find_bug(name, SEEDS_MAX) is not None
