"""Random histories of groups of both protocols. HISTORIES sets how many; a failure names its seed.

`make test` lives twelve times as many as `make check`; `make histories` a hundred thousand.
"""

import os

import pytest

from tests.coordinators.histories import live
from tests.share import IN_FULL, run_seeds

HISTORIES = int(os.environ.get("HISTORIES", "500" if IN_FULL else "20"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
BLOCKS = 20


@pytest.mark.timeout(0)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_history_breaks_a_promise(block: int) -> None:
    run_seeds(live, range(FIRST_SEED + block, FIRST_SEED + HISTORIES, BLOCKS))
