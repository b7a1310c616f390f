"""The checker finds each kind of anomaly, and none in a history without."""

from collections.abc import Sequence
from random import Random

import pytest

from tests.cluster.checker import History, Mark, PartitionHistory

AT = ("t", 0)


def history(*sends: str, idempotent: Sequence[str] = ("p",)) -> PartitionHistory:
    """Of one partition, where these producers sent a record each time they are named."""
    made = History([AT], idempotent)[AT]
    for producer in sends:
        made.sent(producer)
    return made


def kinds(partition: PartitionHistory) -> set[str]:
    return {anomaly.kind for anomaly in partition.check()}


def p(number: int) -> Mark:
    return Mark("p", number)


def test_a_faultless_history_has_no_anomalies() -> None:
    h = history("p", "p", "q", "p")
    h.acknowledged(p(0), 0)
    h.acknowledged(p(1), 2)
    h.polled("c", 1, 0, p(0))
    h.polled("c", 1, 1, Mark("q", 0))
    h.logged(0, [p(0), Mark("q", 0), p(1)])
    h.ends_at(3)
    h.logged(1, [Mark("q", 0), p(1), p(2)])
    assert h.check() == []


def test_what_was_acknowledged_and_is_not_there_is_lost() -> None:
    h = history("p", "p")
    h.acknowledged(p(0), 0)
    h.acknowledged(p(1), 1)
    h.logged(0, [p(0)])
    h.ends_at(1)
    assert kinds(h) == {"lost write"}
    assert "p #1" in h.anomalies[0].detail
    earlier = history("p", "p")
    earlier.acknowledged(p(0), 0)
    earlier.acknowledged(p(1), 1)
    earlier.ends_at(1, due=0)
    assert earlier.anomalies == []


def test_what_was_acknowledged_nobody_knows_where_must_be_there() -> None:
    h = history("p", "p")
    h.acknowledged(p(0), -1)
    h.acknowledged(p(1), -1)
    h.polled("c", 1, 0, p(0))
    h.logged(0, [p(0), p(1)])
    h.ends_at(2)
    assert h.check() == []
    lost = history("p", "p")
    lost.acknowledged(p(0), -1)
    lost.acknowledged(p(1), 0)
    lost.logged(0, [p(1)])
    lost.ends_at(1)
    assert kinds(lost) == {"lost write"}


def test_a_loss_that_another_record_hides_is_found() -> None:
    h = history("p", "q", idempotent=("p", "q"))
    h.acknowledged(p(0), 0)
    h.logged(0, [Mark("q", 0)])
    h.ends_at(1)
    assert kinds(h) == {"lost write", "inconsistent offset"}


def test_what_was_not_acknowledged_may_be_there_or_not() -> None:
    h = history("p", "p", "p")
    h.acknowledged(p(1), 0)
    h.logged(0, [p(1)])
    h.ends_at(1)
    assert h.check() == []


def test_a_record_at_two_offsets_is_a_duplicate_of_an_idempotent_producer_only() -> None:
    twice = history("p")
    twice.acknowledged(p(0), 0)
    twice.logged(0, [p(0), p(0)])
    assert kinds(twice) == {"duplicate"}
    allowed = history("q")
    allowed.logged(0, [Mark("q", 0), Mark("q", 0)])
    assert allowed.check() == []


def test_two_answers_to_one_record_are_a_duplicate() -> None:
    h = history("p", "q")
    h.acknowledged(p(0), 0)
    h.acknowledged(p(0), 1)
    h.logged(0, [p(0), Mark("q", 0)])
    assert "duplicate" in kinds(h)


def test_two_records_said_to_be_at_one_offset_disagree() -> None:
    h = history("p", "q")
    h.acknowledged(p(0), 0)
    h.polled("c", 1, 0, Mark("q", 0))
    h.logged(0, [p(0)])
    assert kinds(h) == {"inconsistent offset"}


def test_records_of_one_producer_out_of_order_are_found() -> None:
    h = history("p", "p")
    h.logged(0, [p(1), p(0)])
    assert kinds(h) == {"nonmonotonic send"}


def test_a_consumer_that_goes_back_or_skips_is_found_within_an_assignment() -> None:
    again = history("p", "p", "p")
    again.polled("c", 1, 0, p(0))
    again.polled("c", 1, 0, p(0))
    again.logged(0, [p(0), p(1), p(2)])
    assert kinds(again) == {"nonmonotonic poll"}
    skip = history("p", "p", "p")
    skip.polled("c", 1, 0, p(0))
    skip.polled("c", 1, 2, p(2))
    skip.logged(0, [p(0), p(1), p(2)])
    assert kinds(skip) == {"poll skip"}


def test_a_consumer_that_was_assigned_again_may_read_again() -> None:
    h = history("p", "p")
    h.polled("c", 1, 0, p(0))
    h.polled("c", 1, 1, p(1))
    h.polled("c", 2, 0, p(0))
    h.polled("d", 1, 1, p(1))
    h.logged(0, [p(0), p(1)])
    assert h.check() == []


def test_a_consumer_that_begins_below_what_it_committed_has_lost_a_commit() -> None:
    h = history("p", "p")
    h.polled("c", 1, 0, p(0))
    h.committed("c", 1)
    h.logged(0, [p(0), p(1)])
    h.polled("c", 2, 1, p(1))
    assert h.check() == []
    h.polled("c", 3, 0, p(0))
    assert kinds(h) == {"lost commit"}


def test_a_record_that_no_consumer_was_given_is_unseen_once_they_have_passed_it() -> None:
    h = history("p", "p", "p")
    for number in range(3):
        h.acknowledged(p(number), number)
    h.polled("c", 1, 0, p(0))
    h.logged(0, [p(0), p(1), p(2)])
    assert h.check() == []
    h.polled("c", 2, 2, p(2))
    assert kinds(h) == {"unseen"}


def test_a_log_that_changes_below_what_was_read_is_found() -> None:
    h = history("p", "p", "q")
    h.logged(0, [p(0), p(1)])
    h.logged(1, [Mark("q", 0)])
    assert kinds(h) == {"changed log"}
    shorter = history("p", "p")
    shorter.logged(0, [p(0), p(1)])
    shorter.ends_at(1)
    assert kinds(shorter) == {"changed log"}
    polled = history("p")
    polled.polled("c", 1, 0, p(0))
    polled.ends_at(0)
    assert kinds(polled) == {"changed log"}


def test_a_hole_and_a_record_of_nobody_are_found() -> None:
    hole = history("p", "p", "p")
    hole.logged(0, [p(0)])
    hole.logged(2, [p(2)])
    assert kinds(hole) == {"hole"}
    stranger = history("p")
    stranger.logged(0, [p(0), Mark("x", 0)])
    assert kinds(stranger) == {"unknown record"}


@pytest.mark.parametrize("seed", range(50))
def test_any_single_damage_to_a_faultless_history_is_found(seed: int) -> None:
    random = Random(seed)
    marks = [Mark(random.choice("pq"), 0) for _ in range(random.randrange(5, 30))]
    h = History([AT], ("p", "q"))[AT]
    log = [h.sent(mark.producer) for mark in marks]
    for offset, mark in enumerate(log):
        h.acknowledged(mark, offset)
    at = random.randrange(len(log) - 1)
    how = random.choice(["drop", "repeat", "swap", "cut"])
    if how == "drop":
        del log[at]
    elif how == "repeat":
        log.insert(at, log[at])
    elif how == "swap":
        log[at], log[at + 1] = log[at + 1], log[at]
    else:
        del log[at:]
    h.logged(0, log)
    h.ends_at(len(log))
    assert h.check() != [], how
