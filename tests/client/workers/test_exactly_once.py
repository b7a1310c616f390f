"""Transactions of a window, told what happens, one thing at a time."""

from collections.abc import Iterable

import pytest

from barnabas.client.producer.record import ProducerRecord
from barnabas.client.workers.dead_letter_headers import trail_in
from barnabas.client.workers.policy import Policy, RecordOrder, Retry
from barnabas.client.workers.window.effects import (
    Effect,
    Fail,
    Pause,
    Release,
    Resume,
    WriteTransaction,
)
from barnabas.client.workers.window.exactly_once import AbortCause, ExactlyOnce, cause_of_abort
from barnabas.client.workers.window.outbox import METADATA_SIZE_MAX, read_metadata
from barnabas.client.workers.window.window import Window
from barnabas.client.workers.window.window_partition import WindowRecord
from barnabas.client.workers.window.window_state import ASK_AGAIN_MS, LAST_COMMIT_MS
from barnabas.model.errors import Abortable, Code
from barnabas.model.ids import TopicPartition
from tests.client.workers.exactly_once_histories import exactly_once
from tests.client.workers.test_window import AT, COUNTS, offsets, records, started, the

OTHER = TopicPartition("orders", 6)
PASSING, REFUSED = AbortCause.PASSING, AbortCause.REFUSED
DRAIN_MS = 1_000


def window_of(
    *,
    order: RecordOrder = RecordOrder.NONE,
    window: int = 100,
    retry: Retry | None = None,
    retry_topic: str | None = None,
    dlq: str | None = "orders.dlq",
) -> Window[ExactlyOnce]:
    policy = Policy(
        group="billing",
        order=order,
        window=window,
        concurrency=10_000,
        retry=retry or Retry(0),
        retry_topic=retry_topic,
        dlq=dlq,
        commit_interval_ms=100,
        drain_ms=DRAIN_MS,
    )
    window_ = exactly_once(policy, COUNTS)
    window_.given(AT, -1, "", now=0)
    return window_


def result(value: bytes = b"r") -> tuple[ProducerRecord, ...]:
    return (ProducerRecord("out", value),)


def transaction_in(effects: list[Effect]) -> WriteTransaction:
    found = the(WriteTransaction, effects)
    assert isinstance(found, WriteTransaction)
    return found


def written(transaction: WriteTransaction) -> list[int]:
    return [entry.record.offset for entry in transaction.entries]


def succeed(window: Window[ExactlyOnce], entries: Iterable[WindowRecord], now: int) -> list[Effect]:
    effects: list[Effect] = []
    for entry in entries:
        effects += window.succeeded(entry, now, result(b"%d" % entry.record.offset))
    return effects


def test_handled_records_are_written_together_after_the_interval() -> None:
    window = window_of()
    entries = started(window.fetched(AT, records([3, 4, 9]), now=0))
    assert succeed(window, entries[:2], now=10) == []
    assert window.next_deadline() == 110
    transaction = transaction_in(window.tick(now=110))
    assert written(transaction) == [3, 4]
    assert transaction.entries[0].results == result(b"3")
    assert transaction.offsets == {AT: (9, -1, "")}
    assert window.next_deadline() is None
    succeed(window, entries[2:], now=120)
    assert window.guarantee.committed(transaction.number, now=130) == []
    assert transaction_in(window.tick(now=220)).offsets == {AT: (10, -1, "")}


def test_results_behind_an_unfinished_record_are_written_and_named() -> None:
    window = window_of()
    entries = started(window.fetched(AT, records(range(5)), now=0))
    succeed(window, [entries[1], entries[3], entries[4]], now=10)
    transaction = transaction_in(window.tick(now=110))
    offset, _, metadata = transaction.offsets[AT]
    saved = read_metadata(metadata)
    assert offset == 0
    assert saved is not None
    assert saved.gone == [1, 1, 1, 2]
    window.guarantee.committed(transaction.number, now=120)
    heir = exactly_once(Policy(group="billing"), COUNTS)
    heir.given(AT, offset, metadata, now=0)
    assert offsets(heir.fetched(AT, records(range(6)), now=0)) == [0, 2, 5]


def test_the_next_record_of_a_key_does_not_wait_for_the_transaction() -> None:
    window = window_of(order=RecordOrder.KEY)
    (first,) = started(window.fetched(AT, records([0, 1], b"k", b"k"), now=0))
    (second,) = started(window.succeeded(first, 1, result()))
    window.succeeded(second, 2, result())
    assert written(transaction_in(window.tick(now=101))) == [0, 1]


def test_half_a_window_of_handled_records_does_not_wait() -> None:
    window = window_of(window=10)
    effects = window.fetched(AT, records(range(20)), now=0)
    assert Pause(AT) in effects
    entries = started(effects)
    assert len(entries) == 10
    assert succeed(window, entries[:4], now=1) == []
    transaction = transaction_in(succeed(window, entries[4:5], now=2))
    assert written(transaction) == list(range(5))
    # No room before the commit: what waits for it is bounded.
    assert window.fetched(AT, records([10]), now=3) == []
    assert Resume(AT) in window.guarantee.committed(transaction.number, now=4)


def test_after_an_abort_the_same_results_are_written_again_and_nothing_is_called() -> None:
    window = window_of()
    entries = started(window.fetched(AT, records([0, 1, 2]), now=0))
    succeed(window, entries[:2], now=0)
    first = transaction_in(window.tick(now=100))
    succeed(window, entries[2:], now=101)
    assert window.guarantee.aborted(first.number, PASSING, "no answer", now=110) == []
    assert window.next_deadline() == 110 + ASK_AGAIN_MS
    again = transaction_in(window.tick(now=110 + ASK_AGAIN_MS))
    assert written(again) == [0, 1, 2]
    assert [entry.results for entry in again.entries] == [
        result(b"%d" % number) for number in range(3)
    ]
    assert window.guarantee.committed(first.number, now=700) == []  # of another transaction
    assert again.offsets == {AT: (3, -1, "")}


def test_a_record_that_fails_goes_to_the_retry_topic_in_the_transaction() -> None:
    window = window_of(retry_topic="orders.retry", retry=Retry(0, rounds=1, delay=(2, 2)))
    good, bad = started(window.fetched(AT, records([0, 1], b"a", b"b"), now=0))
    window.succeeded(good, 5, result())
    window.failed(bad, "ValueError: bad", 7)
    transaction = transaction_in(window.tick(now=105))
    assert transaction.offsets == {AT: (2, -1, "")}
    (letter,) = transaction.entries[1].results
    assert (letter.topic, letter.partition, letter.key) == ("orders.retry", 5 % 3, b"b")
    trail = trail_in(letter.headers)
    assert trail is not None
    assert (trail.cause, trail.round, trail.not_before) == ("ValueError: bad", 1, 2_007)


def test_without_a_dead_letter_topic_the_worker_stops_and_the_rest_is_written() -> None:
    window = window_of(dlq=None)
    bad, good = started(window.fetched(AT, records([0, 1]), now=0))
    window.succeeded(good, 5, result())
    fail = the(Fail, window.failed(bad, "ValueError: bad", 6))
    assert isinstance(fail, Fail)
    assert "set dlq" in fail.detail
    transaction = transaction_in(window.revoke([AT], now=7))
    assert written(transaction) == [1]
    assert transaction.offsets[AT][0] == 0
    assert window.guarantee.committed(transaction.number, now=8) == [Release(AT)]


@pytest.mark.parametrize("guilty", [0, 5, 99])
def test_a_refused_record_is_found_and_given_up(guilty: int) -> None:
    window = window_of(window=1_000)
    succeed(window, started(window.fetched(AT, records(range(100)), now=0)), now=0)
    transaction = transaction_in(window.tick(now=100))
    count = 0
    while True:
        count += 1
        now = 100 + count
        refused = any(
            entry.record.offset == guilty and not entry.is_letter for entry in transaction.entries
        )
        if refused:
            said = "too large"
            effects = window.guarantee.aborted(transaction.number, REFUSED, said, now)
        else:
            effects = window.guarantee.committed(transaction.number, now)
        found = [effect for effect in effects if isinstance(effect, WriteTransaction)]
        if not found:
            due = window.next_deadline()
            if due is None:
                break
            found = [transaction_in(window.tick(now=due))]
        transaction = found[0]
        for entry in transaction.entries:
            if entry.is_letter:
                assert entry.record.offset == guilty
                trail = trail_in(entry.results[0].headers)
                assert trail is not None
                assert trail.cause == "too large"
    assert count <= 2 * 7 + 3
    assert transaction.offsets == {AT: (100, -1, "")}


def test_a_record_that_the_producer_refuses_is_known() -> None:
    window = window_of()
    entries = started(window.fetched(AT, records(range(3)), now=0))
    succeed(window, entries, now=0)
    transaction = transaction_in(window.tick(now=100))
    window.guarantee.aborted(transaction.number, REFUSED, "too large", 101, culprit=entries[1])
    again = transaction_in(window.tick(now=201))
    assert [entry.is_letter for entry in again.entries] == [False, True, False]


def test_a_dead_letter_that_is_refused_stops_the_worker() -> None:
    window = window_of()
    (bad,) = started(window.fetched(AT, records([4]), now=0))
    window.failed(bad, "ValueError: bad", 0)
    transaction = transaction_in(window.tick(now=100))
    effects = window.guarantee.aborted(transaction.number, REFUSED, "too large", 101)
    assert the(Fail, effects) == Fail(AT, 4, "too large")


def test_offsets_that_are_refused_without_a_record_stop_the_worker() -> None:
    window = window_of(retry_topic="orders.retry")
    at = TopicPartition("orders.retry", 0)
    window.given(at, 0, "", now=0)
    foreign = records([7], at=at, headers=_trail_of("another group"))
    assert started(window.fetched(at, foreign, now=0)) == []
    transaction = transaction_in(window.tick(now=100))
    assert (transaction.entries, transaction.offsets) == ([], {at: (8, -1, "")})
    effects = window.guarantee.aborted(transaction.number, REFUSED, "not allowed", 101)
    assert the(Fail, effects) == Fail(at, 8, "not allowed")


def _trail_of(group: str) -> tuple[tuple[str, bytes | None], ...]:
    names = ("group", "origin.topic", "origin.partition", "origin.offset", "origin.timestamp")
    texts = (group, "orders", "0", "0", "0")
    return tuple(
        (f"barnabas.{name}", text.encode()) for name, text in zip(names, texts, strict=True)
    )


def test_a_revoked_partition_is_released_after_its_last_transaction() -> None:
    window = window_of()
    first, second = started(window.fetched(AT, records([0, 1]), now=0))
    window.succeeded(first, 1, result())
    assert window.revoke([AT], now=10) == []  # a handler runs
    transaction = transaction_in(window.succeeded(second, 20, result()))
    assert written(transaction) == [0, 1]
    assert window.guarantee.committed(transaction.number, now=30) == [Release(AT)]


def test_a_revoked_partition_waits_for_the_open_transaction_but_not_for_ever() -> None:
    window = window_of()
    (entry,) = started(window.fetched(AT, records([0]), now=0))
    window.succeeded(entry, 0, result())
    transaction = transaction_in(window.tick(now=100))
    assert window.revoke([AT], now=110) == []
    assert window.tick(now=110 + DRAIN_MS) == []
    assert window.tick(now=110 + DRAIN_MS + LAST_COMMIT_MS) == [Release(AT)]
    assert window.guarantee.aborted(transaction.number, PASSING, "", now=9_000) == []
    assert window.next_deadline() is None  # nothing of it is written later


def test_a_partition_that_was_lost_is_not_in_the_next_transaction() -> None:
    window = window_of()
    window.given(OTHER, -1, "", now=0)
    (lost,) = started(window.fetched(AT, records([0]), now=0))
    (kept,) = started(window.fetched(OTHER, records([0], at=OTHER), now=0))
    succeed(window, [lost, kept], now=0)
    transaction = transaction_in(window.tick(now=100))
    assert set(transaction.offsets) == {AT, OTHER}
    window.lost([AT], now=110)
    window.given(AT, 0, "", now=120)
    window.guarantee.aborted(transaction.number, PASSING, "another member has it", now=130)
    again = transaction_in(window.tick(now=130 + ASK_AGAIN_MS))
    assert set(again.offsets) == {OTHER}
    assert again.entries == [kept]


def test_the_metadata_of_a_commit_never_gets_too_long() -> None:
    window = window_of(window=10_000)
    entries = started(window.fetched(AT, records(range(5_000)), now=0))
    succeed(window, entries[1::3], now=0)
    now = 100
    named = 0
    while found := [each for each in window.tick(now) if isinstance(each, WriteTransaction)]:
        assert len(found[0].offsets[AT][2]) <= METADATA_SIZE_MAX
        named += len(found[0].entries)
        window.guarantee.committed(found[0].number, now)
        now += 1_000
    assert 300 < named < len(entries[1::3])
    # The first record lets the others follow.
    rest = [entry for index, entry in enumerate(entries) if index % 3 != 1]
    succeed(window, rest, now)
    now += 100
    last = transaction_in(window.tick(now))
    assert last.offsets == {AT: (5_000, -1, "")}


def test_a_producer_that_cannot_go_on_ends_everything_at_once() -> None:
    window = window_of()
    first, second = started(window.fetched(AT, records([0, 1]), now=0))
    window.succeeded(first, 0, result())
    transaction = transaction_in(window.tick(now=100))
    assert window.guarantee.ended(transaction.number, now=110) == []
    assert window.succeeded(second, 120, result()) == []
    assert window.next_deadline() is None
    assert window.revoke([AT], now=130) == [Release(AT)]


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (Code.ILLEGAL_GENERATION, PASSING),
        (Code.UNKNOWN_MEMBER_ID, PASSING),
        (Code.STALE_MEMBER_EPOCH, PASSING),
        (Code.REQUEST_TIMED_OUT, PASSING),
        (Code.INVALID_TXN_STATE, PASSING),
        (Code.INVALID_PRODUCER_EPOCH, PASSING),
        (Code.MESSAGE_TOO_LARGE, REFUSED),
        (Code.INVALID_RECORD, REFUSED),
        (Code.TOPIC_AUTHORIZATION_FAILED, REFUSED),
        (Code.GROUP_AUTHORIZATION_FAILED, AbortCause.LASTING),
        (Code.UNKNOWN_SERVER_ERROR, AbortCause.LASTING),
    ],
)
def test_the_code_of_an_abort_says_what_follows(code: Code, cause: AbortCause) -> None:
    assert cause_of_abort(Abortable(code, "x")) is cause
