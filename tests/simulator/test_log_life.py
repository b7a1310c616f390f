"""Random lives of a log against a model of plain lists; `make lives` runs 100,000 of them.

LIVES in the environment sets how many, FIRST_LIFE where they begin; a failure names its seed.
"""

import os
from unittest.mock import patch

import pytest

from barnabas.log.compaction.segment_swap import SegmentSwap
from barnabas.model.errors import Corrupt
from tests.share import IN_FULL, share_of
from tests.simulator.life import live
from tests.simulator.life_bugs import BUGS, planted

LIVES = int(os.environ.get("LIVES", "60" if IN_FULL else "3"))
FIRST_LIFE = int(os.environ.get("FIRST_LIFE", "0"))
PER_TEST = 10 if LIVES < 1000 else 500
STEPS = 60
STEPS_WITH_TRANSACTIONS = 80
# From where a bug is found soon; the others: from the first life.
FOUND_FROM = {
    "a_marker_counts_before_it_is_committed": 204,
    "batches_without_records_need_no_marker": 3,
    "transactions_are_forgotten_between_groups_of_segments": 3,
    "truncation_leaves_aborted_transactions_in_the_index": 24,
    "what_a_pass_did_not_reach_is_not_in_the_index": 126,
}
FOUND_WITHIN = 200


@pytest.mark.timeout(600)
@pytest.mark.parametrize("failing_syncs", [False, True])
@pytest.mark.parametrize("first", range(FIRST_LIFE, FIRST_LIFE + LIVES, PER_TEST))
@pytest.mark.parametrize("transactions", [False, True])
def test_a_log_agrees_with_its_model_whatever_happens(
    first: int, failing_syncs: bool, transactions: bool
) -> None:
    steps = STEPS_WITH_TRANSACTIONS if transactions else STEPS
    for seed in range(first, min(first + PER_TEST, FIRST_LIFE + LIVES)):
        try:
            live(seed, steps, failing_syncs=failing_syncs, transactions=transactions)
        except BaseException as problem:
            problem.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("seed", [426, 20633])
def test_lives_that_found_a_fault_once(seed: int) -> None:
    """426: an index that a recovery had rebuilt below the recovery point was not synced.
    20633: a crash in the second pass over a segment, with the first one's swap not on disk.
    """
    live(seed, STEPS)


def test_a_compacted_segment_put_in_place_after_a_truncation_is_found() -> None:
    """With the bug planted: only base offsets are compared, as if nothing had been cut."""

    def find_old(self: SegmentSwap) -> int:
        self._cleaned = self._cleaned._replace(cuts=self._log.cuts)
        return real(self)

    real = SegmentSwap._find_old
    with patch.object(SegmentSwap, "_find_old", find_old):
        for seed in range(FOUND_WITHIN):
            try:
                live(seed, STEPS)
            except AssertionError:
                return
    pytest.fail(f"{FOUND_WITHIN} lives did not show it")


@pytest.mark.parametrize("name", share_of(BUGS))
def test_a_bug_of_transactional_logs_is_found(name: str) -> None:
    first = FOUND_FROM.get(name, 0)
    with planted(name):
        for seed in range(first, first + FOUND_WITHIN):
            try:
                live(seed, STEPS_WITH_TRANSACTIONS, transactions=True)
            except (AssertionError, Corrupt):
                return
    pytest.fail(f"{FOUND_WITHIN} lives did not show it")
