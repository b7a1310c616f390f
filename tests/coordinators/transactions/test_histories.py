"""Random histories of transactions. HISTORIES sets how many; a failure names its seed."""

import os

import pytest

from tests.coordinators.transactions.bugs import BUGS
from tests.coordinators.transactions.histories import live
from tests.share import IN_FULL, run_seeds, share_of

HISTORIES = int(os.environ.get("HISTORIES", "500" if IN_FULL else "20"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
BLOCKS = 10
SEEDS_TO_FIND_A_BUG = 200


@pytest.mark.timeout(0)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_history_breaks_a_promise(block: int) -> None:
    run_seeds(live, range(FIRST_SEED + block, FIRST_SEED + HISTORIES, BLOCKS))


@pytest.mark.parametrize("bug", share_of(BUGS))
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    for seed in range(SEEDS_TO_FIND_A_BUG):
        try:
            live(seed)
        except Exception:
            return
    pytest.fail(f"{SEEDS_TO_FIND_A_BUG} histories did not find it")
