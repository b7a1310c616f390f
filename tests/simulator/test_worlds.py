"""Worlds from seeds: nothing acknowledged is lost, whatever happens; the same seed, the same world.

SEEDS sets how many, FIRST_SEED the first; a failure names its seed and tells its transcript.
`make sim SEEDS=2000` runs more of them, with a progress bar.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.share import IN_FULL
from tests.simulator.run import run_seed

SEEDS = int(os.environ.get("SEEDS", "30" if IN_FULL else "1"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
SHARE_SEEDS = max(1, SEEDS // 5)
PER_TEST = 3
ROOT = Path(__file__).parents[2]
TRACES = "from tests.simulator.run import run_seed; print(*[run_seed(s).trace for s in ({})])"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEEDS, PER_TEST))
def test_no_world_breaks_a_promise(first: int) -> None:
    for seed in range(first, min(first + PER_TEST, FIRST_SEED + SEEDS)):
        result = run_seed(seed)
        assert not result.failure, result.failure


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SHARE_SEEDS, PER_TEST))
def test_no_share_group_loses_or_repeats_what_was_acknowledged(first: int) -> None:
    for seed in range(first, min(first + PER_TEST, FIRST_SEED + SHARE_SEEDS)):
        result = run_seed(seed, shares=True)
        assert not result.failure, result.failure


@pytest.mark.full
def test_a_seed_gives_a_world_of_its_own_the_same_in_any_process() -> None:
    """Whatever order sets have there, and whatever ran before."""
    seeds = (4, 8)  # with share groups, with transactions
    here = [run_seed(seed).trace for seed in seeds]
    there = subprocess.run(
        [sys.executable, "-c", TRACES.format(", ".join(map(str, reversed(seeds))))],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert there[::-1] == here
    assert here[0] != here[1]
