"""Two rounds of kills of brokers and members of a share group; `make share-kills` for more."""

import pytest

from tests.cluster.share_kills import run_kills
from tests.share import SEED

RECORDS = 120


@pytest.mark.timeout(1800)
def test_accepted_records_do_not_come_again_and_none_is_lost() -> None:
    faults = ("both-killed", "members-killed")
    done = run_kills(len(faults), SEED, print, records=RECORDS, faults=faults)
    assert done.records == RECORDS * len(faults)
    assert set(done.faults) == set(faults)
