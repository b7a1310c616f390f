"""A share of the copies in transactions; `make txn-bounces` for 100,000 records of each variant."""

import pytest

from tests.cluster.copies import BROKER_FAULTS, COPIER_FAULTS, FAULTS, VARIANTS, run_copies
from tests.share import SEED
from tests.support.cache import Missing
from tests.support.java import kafka_lib

RECORDS = 6_000
SIZE = 200


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("variant", ["classic", "consumer", "assigned", "java"])
def test_each_record_is_copied_once_and_in_order(variant: str) -> None:
    if "java" in VARIANTS[variant].copiers:
        try:
            kafka_lib()
        except Missing as missing:
            pytest.skip(str(missing))
    faults = ("kill", "copiers-killed") if variant == "java" else FAULTS
    done = run_copies(variant, SEED, print, records=RECORDS, faults=faults, size=SIZE)
    assert done.records == RECORDS // len(faults) * len(faults)
    assert set(done.faults) == set(faults) <= {*BROKER_FAULTS, *COPIER_FAULTS}
