"""The schedule of a holding partition, step by step."""

from barnabas.client.delay.delay_ledger import DelayOutcome, LedgerRecord, MovedOffsets
from barnabas.client.delay.delayed_record import Cancellation, DelayedRecord, UnusableRecord
from barnabas.client.delay.schedule import (
    DELETE_EVERY_MS,
    DelayEffect,
    DelaySchedule,
    DeleteBefore,
    MoveFailure,
    MoveProblem,
    WriteMoves,
)

LETTERS = "later.dlq"
PASSING = MoveFailure(MoveProblem.PASSING, "no leader")


def schedule_of(*records: DelayedRecord | UnusableRecord | Cancellation) -> DelaySchedule:
    schedule = DelaySchedule(MovedOffsets(), len(records), LETTERS)
    schedule.read(records, len(records))
    return schedule


def written(effects: list[DelayEffect]) -> WriteMoves:
    (found,) = (effect for effect in effects if isinstance(effect, WriteMoves))
    return found


def offsets(effects: list[DelayEffect]) -> list[int]:
    return [move.offset for move in written(effects).moves]


def test_records_are_moved_when_they_are_due_in_the_order_of_their_times() -> None:
    schedule = schedule_of(
        DelayedRecord(30, 0, "a", 1), DelayedRecord(10, 1, "a", 1), DelayedRecord(10, 2, "b", 1)
    )
    assert schedule.next_deadline() == 10
    assert schedule.advance(9) == []
    first = written(schedule.advance(10))
    assert ([move.offset for move in first.moves], first.low) == ([1, 2], 0)
    assert schedule.next_deadline() is None  # until the transaction has ended
    assert schedule.advance(40) == []
    schedule.committed(first.number)
    assert schedule.next_deadline() == 30
    last = written(schedule.advance(30))
    assert ([move.offset for move in last.moves], last.low) == ([0], 3)


def test_nothing_is_moved_before_all_that_was_there_is_read() -> None:
    """An earlier record, or a cancellation, may be further on."""
    schedule = DelaySchedule(MovedOffsets(), 3, LETTERS)
    schedule.read([DelayedRecord(5, 0, "a", 1)], 2)
    assert schedule.advance(10) == []
    assert schedule.next_deadline() is None
    schedule.read([], 3)  # the last offset was a marker
    assert offsets(schedule.advance(10)) == [0]


def test_what_the_ledger_names_is_not_moved_again() -> None:
    moved = MovedOffsets([LedgerRecord(1, "id", 2, [3, 1])])
    schedule = DelaySchedule(moved, 5, LETTERS)
    assert schedule.position == 2
    schedule.read([DelayedRecord(0, offset, "a", 1) for offset in range(2, 5)], 5)
    assert offsets(schedule.advance(10)) == [2, 4]


def test_a_cancelled_record_is_only_noted() -> None:
    schedule = schedule_of(DelayedRecord(90, 0, "a", 1), Cancellation(1, 0))
    (move,) = written(schedule.advance(0)).moves
    assert (move.offset, move.topic, move.outcome) == (0, "", DelayOutcome.CANCELLED)


def test_a_cancellation_comes_too_late_for_a_transaction_that_is_committed() -> None:
    schedule = schedule_of(DelayedRecord(5, 0, "a", 1))
    effect = written(schedule.advance(5))
    schedule.read([Cancellation(1, 0)], 2)
    schedule.committed(effect.number)
    assert schedule.advance(10) == [DeleteBefore(1)]


def test_a_cancellation_holds_if_the_transaction_is_aborted() -> None:
    schedule = schedule_of(DelayedRecord(5, 0, "a", 1))
    effect = written(schedule.advance(5))
    schedule.read([Cancellation(1, 0)], 2)
    schedule.aborted(effect.number, {}, 5)
    (move,) = written(schedule.advance(10_000)).moves
    assert move.outcome is DelayOutcome.CANCELLED


def test_a_topic_without_a_leader_holds_up_its_own_records_only() -> None:
    schedule = schedule_of(
        DelayedRecord(1, 0, "sick", 1), DelayedRecord(2, 1, "a", 1), DelayedRecord(3, 2, "sick", 1)
    )
    effect = written(schedule.advance(5))
    schedule.aborted(effect.number, {0: PASSING}, 5)
    healthy = written(schedule.advance(5))
    assert ([move.offset for move in healthy.moves], healthy.low) == ([1], 0)
    schedule.committed(healthy.number)
    again = schedule.next_deadline()
    assert again is not None
    assert again > 5
    assert schedule.advance(again - 1) == []
    assert offsets(schedule.advance(again)) == [0, 2]


def test_a_refusal_of_a_batch_is_believed_of_a_record_alone() -> None:
    schedule = schedule_of(DelayedRecord(1, 0, "a", 1), DelayedRecord(2, 1, "a", 9))
    refused = MoveFailure(MoveProblem.BATCH, "MESSAGE_TOO_LARGE")
    effect = written(schedule.advance(5))
    schedule.aborted(effect.number, {0: refused, 1: refused}, 5)
    first = written(schedule.advance(5))
    assert [move.offset for move in first.moves] == [0]
    schedule.committed(first.number)
    second = written(schedule.advance(5))
    schedule.aborted(second.number, {1: refused}, 5)
    (letter,) = written(schedule.advance(5)).moves
    assert (letter.offset, letter.topic, letter.cause) == (1, LETTERS, "MESSAGE_TOO_LARGE")


def test_a_refused_topic_makes_letters_of_all_its_records_at_once() -> None:
    schedule = schedule_of(*(DelayedRecord(1, offset, "no", 1) for offset in range(3)))
    effect = written(schedule.advance(5))
    schedule.aborted(effect.number, {1: MoveFailure(MoveProblem.TOPIC, "denied")}, 5)
    letters = written(schedule.advance(5)).moves
    assert [(move.topic, move.cause) for move in letters] == [(LETTERS, "denied")] * 3


def test_a_letter_that_is_refused_goes_without_its_value_and_then_waits() -> None:
    """Nobody may lose it."""
    schedule = schedule_of(UnusableRecord(0, "no header", 99), DelayedRecord(1, 1, "a", 1))
    refused = MoveFailure(MoveProblem.RECORD, "MESSAGE_TOO_LARGE")
    schedule.aborted(written(schedule.advance(5)).number, {0: refused}, 5)
    effect = written(schedule.advance(5))
    assert (effect.moves[0].without_value, effect.moves[0].cause) == (True, "no header")
    schedule.aborted(effect.number, {0: refused}, 5)
    assert offsets(schedule.advance(5)) == [1]


def test_a_transaction_that_fails_by_itself_is_tried_again_later_and_later() -> None:
    schedule = schedule_of(DelayedRecord(1, 0, "a", 1))
    pauses, now = [], 1
    for _ in range(10):
        schedule.aborted(written(schedule.advance(now)).number, {}, now)
        deadline = schedule.next_deadline()
        assert deadline is not None
        pauses.append(deadline - now)
        now = deadline
    assert pauses[:3] == [500, 1_000, 2_000]
    assert pauses[-1] == 60_000


def test_a_full_schedule_is_not_read_into_and_moves_what_it_has() -> None:
    schedule = DelaySchedule(MovedOffsets(), 100, LETTERS, pending_max=2)
    schedule.read([DelayedRecord(1, 0, "a", 1), DelayedRecord(2, 1, "a", 1)], 2)
    assert schedule.full
    effect = written(schedule.advance(5))
    schedule.committed(effect.number)
    assert not schedule.full
    assert schedule.advance(6) == [DeleteBefore(2)]


def test_old_records_are_deleted_now_and_then() -> None:
    schedule = schedule_of(*(DelayedRecord(due, due, "a", 1) for due in range(2)))
    schedule.committed(written(schedule.advance(0)).number)
    both = schedule.advance(1)
    assert DeleteBefore(1) in both
    schedule.committed(written(both).number)
    assert schedule.advance(2) == []
    assert schedule.next_deadline() == 1 + DELETE_EVERY_MS
    assert schedule.advance(1 + DELETE_EVERY_MS) == [DeleteBefore(2)]
