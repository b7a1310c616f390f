"""Guards of transactional batches that wait for the coordinator."""

from barnabas.log.transactions.verification import GUARDS_MAX, VerificationGuards

P = 7


def test_a_guard_is_good_until_the_append() -> None:
    guards = VerificationGuards()
    guard = guards.require(P, 0, 0, has_version_2=False)
    assert guards.require(P, 0, 1, has_version_2=False) is guard
    assert guards.is_good(P, guard)
    guards.appended(P)
    assert not guards.is_good(P, guard)
    assert not guards.is_good(P, None)
    assert not guards.is_good(8, guard)


def test_a_marker_between_the_answer_and_the_append_takes_the_guard_away() -> None:
    """Else a late batch opens a transaction that nobody ends."""
    guards = VerificationGuards()
    guard = guards.require(P, 0, 0, has_version_2=False)
    guards.ended(P, 0)
    assert not guards.is_good(P, guard)
    again = guards.require(P, 0, 0, has_version_2=False)
    assert again is not guard
    assert not guards.is_good(P, guard)


def test_a_marker_of_version_2_leaves_the_next_transactions_guard() -> None:
    guards = VerificationGuards()
    before = guards.require(P, 4, 0, has_version_2=True)
    guards.ended(P, 5)
    assert not guards.is_good(P, before)
    following = guards.require(P, 5, 0, has_version_2=True)
    guards.ended(P, 5)
    assert guards.is_good(P, following)


def test_the_lowest_sequence_that_waits_is_known_per_epoch() -> None:
    guards = VerificationGuards()
    guard = guards.require(P, 0, 5, has_version_2=False)
    guards.require(P, 0, 3, has_version_2=False)
    guards.require(P, 0, 9, has_version_2=False)
    assert guard.lowest_sequence == 3
    newer = guards.require(P, 1, 7, has_version_2=False)
    assert (newer.epoch, newer.lowest_sequence) == (1, 7)
    guards.require(P, 0, 0, has_version_2=False)
    assert (newer.epoch, newer.lowest_sequence) == (1, 7)
    assert not guards.is_good(P, guard)


def test_a_guard_of_version_2_does_not_save_a_later_one_of_version_1() -> None:
    """In version 1 a marker of the guard's epoch ends the guard's own transaction."""
    guards = VerificationGuards()
    guards.require(P, 4, 0, has_version_2=True)
    guard = guards.require(P, 5, 0, has_version_2=False)
    guards.ended(P, 5)
    assert not guards.is_good(P, guard)


def test_guards_are_bounded() -> None:
    guards = VerificationGuards()
    first = guards.require(0, 0, 0, has_version_2=False)
    for producer in range(1, GUARDS_MAX + 1):
        guards.require(producer, 0, 0, has_version_2=False)
    assert len(guards) == GUARDS_MAX
    assert not guards.is_good(0, first)
