"""The window, told what happens, one thing at a time."""

from collections.abc import Iterable

import pytest

from barnabas.client.workers.dead_letter_headers import trail_in
from barnabas.client.workers.policy import Policy, RecordOrder, Retry
from barnabas.client.workers.window.at_least_once import AtLeastOnce
from barnabas.client.workers.window.effects import (
    Cancel,
    Commit,
    Effect,
    Fail,
    Identify,
    Pause,
    Release,
    Resume,
    SendLetter,
    Start,
)
from barnabas.client.workers.window.outbox import LetterProducer
from barnabas.client.workers.window.window import Window
from barnabas.client.workers.window.window_partition import WindowRecord
from barnabas.client.workers.window.window_state import ASK_AGAIN_MS, LAST_COMMIT_MS
from barnabas.model.errors import InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.wire.record_loops import Headers
from tests.client.workers.broker import Record
from tests.client.workers.histories import at_least_once

AT = TopicPartition("orders", 5)
RETRY_AT = TopicPartition("orders.retry", 1)
COUNTS = {"orders.dlq": 2, "orders.retry": 3}
IDENTITY = LetterProducer(77, 0)


def window_of(
    *,
    order: RecordOrder = RecordOrder.NONE,
    window: int = 100,
    concurrency: int = 100,
    retry: Retry | None = None,
    retry_topic: str | None = None,
    dlq: str | None = "orders.dlq",
    timeout_ms: int | None = None,
) -> Window[AtLeastOnce]:
    policy = Policy(
        group="billing",
        order=order,
        window=window,
        concurrency=concurrency,
        retry=retry or Retry(0),
        retry_topic=retry_topic,
        dlq=dlq,
        timeout_ms=timeout_ms,
        commit_interval_ms=100,
        drain_ms=1_000,
    )
    window_ = at_least_once(policy, COUNTS)
    window_.given(AT, -1, "", now=0)
    return window_


def records(
    offsets: Iterable[int], *keys: bytes | None, at: TopicPartition = AT, headers: Headers = ()
) -> list[Record]:
    return [
        Record(at.topic, at.partition, offset, 7, keys[index] if keys else None, b"v", headers)
        for index, offset in enumerate(offsets)
    ]


def started(effects: list[Effect]) -> list[WindowRecord]:
    return [effect.entry for effect in effects if isinstance(effect, Start)]


def offsets(effects: list[Effect]) -> list[int]:
    return [entry.record.offset for entry in started(effects)]


def the(kind: type, effects: list[Effect]) -> Effect:
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, effects
    return found[0]


def commit_in(effects: list[Effect]) -> Commit:
    found = the(Commit, effects)
    assert isinstance(found, Commit)
    return found


def send_in(effects: list[Effect]) -> SendLetter:
    found = the(SendLetter, effects)
    assert isinstance(found, SendLetter)
    return found


def die(window: Window[AtLeastOnce], entry: WindowRecord, now: int) -> list[Effect]:
    """Fail until its intent is to be committed."""
    effects = window.failed(entry, "ValueError: bad", now)
    if any(isinstance(effect, Identify) for effect in effects):
        effects = window.guarantee.identified(AT, 1, IDENTITY, now)
    return effects


def test_what_is_committed_is_the_end_of_the_finished_prefix() -> None:
    window = window_of()
    first, second, third = started(window.fetched(AT, records([3, 4, 9]), now=0))
    window.succeeded(second, now=10)
    window.succeeded(third, now=20)
    assert commit_in(window.tick(now=110)).offset == 3
    window.guarantee.committed(AT, 1, now=115)
    window.succeeded(first, now=120)
    assert commit_in(window.tick(now=220)).offset == 10


def test_commits_wait_for_their_interval_and_for_the_answer_to_the_last() -> None:
    window = window_of()
    first, second = started(window.fetched(AT, records([0, 1]), now=0))
    window.succeeded(first, now=10)
    assert window.next_deadline() == 110
    assert commit_in(window.tick(now=110)).offset == 1
    window.succeeded(second, now=120)
    assert window.tick(now=500) == []
    assert window.guarantee.committed(AT, 1, now=510) == []
    assert commit_in(window.tick(now=610)).offset == 2


def test_a_commit_that_failed_is_made_again() -> None:
    window = window_of()
    (only,) = started(window.fetched(AT, records([0]), now=0))
    window.succeeded(only, now=0)
    window.tick(now=100)
    window.guarantee.commit_failed(AT, 1, now=200)
    window.tick(now=200 + ASK_AGAIN_MS)
    assert commit_in(window.tick(now=200 + ASK_AGAIN_MS + 100)).offset == 1


def test_records_of_one_key_run_one_after_another() -> None:
    window = window_of(order=RecordOrder.KEY)
    effects = window.fetched(AT, records([0, 1, 2, 3], b"a", b"b", b"a", None), now=0)
    assert offsets(effects) == [0, 1, 3]
    assert offsets(window.succeeded(started(effects)[0], now=1)) == [2]


def test_a_record_that_is_tried_again_keeps_its_key_waiting() -> None:
    window = window_of(order=RecordOrder.KEY, retry=Retry(1, backoff=(0.5, 0.5)))
    effects = window.fetched(AT, records([0, 1], b"a", b"a"), now=0)
    assert window.failed(started(effects)[0], "ValueError", now=10) == []
    assert window.next_deadline() == 510
    again = window.tick(now=510)
    assert offsets(again) == [0]
    assert offsets(window.succeeded(started(again)[0], now=520)) == [1]


def test_by_partition_one_record_runs_at_a_time() -> None:
    window = window_of(order=RecordOrder.PARTITION)
    effects = window.fetched(AT, records([0, 1], b"a", b"b"), now=0)
    assert offsets(effects) == [0]
    assert offsets(window.succeeded(started(effects)[0], now=1)) == [1]


def test_no_more_run_than_there_are_hands() -> None:
    window = window_of(concurrency=2)
    effects = window.fetched(AT, records(range(5)), now=0)
    assert offsets(effects) == [0, 1]
    assert offsets(window.succeeded(started(effects)[1], now=1)) == [2]


def test_a_stuck_record_stops_nobody_until_the_window_is_full() -> None:
    window = window_of(window=4)
    effects = window.fetched(AT, records(range(3)), now=0)
    stuck, *others = started(effects)
    for entry in others:
        window.succeeded(entry, now=1)
    effects = window.fetched(AT, records([3]), now=2)
    assert the(Pause, effects) == Pause(AT)
    (last,) = started(effects)
    assert window.succeeded(last, now=3) == []
    assert the(Resume, window.succeeded(stuck, now=4)) == Resume(AT)
    assert commit_in(window.tick(now=200)).offset == 4


def test_a_record_leaves_only_when_its_intent_is_committed() -> None:
    window = window_of()
    bad, good = started(window.fetched(AT, records([0, 1]), now=0))
    effects = window.failed(bad, "ValueError: bad", now=5)
    assert effects == [Identify(AT, 1)]
    commit = commit_in(window.guarantee.identified(AT, 1, IDENTITY, now=6))
    assert commit.offset == 0
    window.succeeded(good, now=7)
    send = send_in(window.guarantee.committed(AT, 1, now=8))
    assert (send.to, send.identity, send.sequence) == (("orders.dlq", 1), IDENTITY, 0)
    trail = trail_in(send.headers)
    assert trail is not None
    assert trail.origin == ("orders", 5, 0)
    assert (trail.group, trail.cause, trail.attempts) == ("billing", "ValueError: bad", 1)
    assert trail.not_before == -1
    window.guarantee.letters.sent(AT, 1, now=9)
    commit = commit_in(window.tick(now=200))
    assert (commit.offset, commit.metadata) == (2, "")


def test_the_next_worker_finishes_an_intent_without_asking_the_handler() -> None:
    window = window_of()
    _, bad = started(window.fetched(AT, records([0, 1]), now=0))
    commit = commit_in(die(window, bad, now=5))
    send = send_in(window.guarantee.committed(AT, 1, now=6))

    heir = at_least_once(Policy(group="billing", dlq="orders.dlq"), COUNTS)
    heir.given(AT, commit.offset, commit.metadata, now=100)
    effects = heir.fetched(AT, records([0, 1]), now=101)
    assert offsets(effects) == [0]
    assert send_in(effects) == send


def test_a_letter_that_left_ahead_of_the_prefix_does_not_leave_again() -> None:
    window = window_of()
    _, bad, _ = started(window.fetched(AT, records([0, 1, 2]), now=0))
    die(window, bad, now=5)
    window.guarantee.committed(AT, 1, now=6)
    window.guarantee.letters.sent(AT, 1, now=7)
    commit = commit_in(window.tick(now=107))
    assert commit.offset == 0

    heir = at_least_once(Policy(group="billing", dlq="orders.dlq"), COUNTS)
    heir.given(AT, commit.offset, commit.metadata, now=200)
    assert offsets(heir.fetched(AT, records([0, 1, 2]), now=201)) == [0, 2]


def test_a_send_without_an_answer_is_made_again_under_the_same_number() -> None:
    window = window_of()
    (bad,) = started(window.fetched(AT, records([0]), now=0))
    die(window, bad, now=1)
    send = send_in(window.guarantee.committed(AT, 1, now=2))
    assert window.guarantee.letters.send_failed(AT, 1, now=3) == []
    assert send_in(window.tick(now=3 + ASK_AGAIN_MS)) == send


def test_a_target_that_forgot_the_numbers_gets_another_identity() -> None:
    window = window_of()
    (bad,) = started(window.fetched(AT, records([0]), now=0))
    die(window, bad, now=1)
    window.guarantee.committed(AT, 1, now=2)
    assert window.guarantee.letters.send_out_of_order(AT, 1, now=3) == [Identify(AT, 1)]
    commit_in(window.guarantee.identified(AT, 1, LetterProducer(78, 0), now=4))
    send = send_in(window.guarantee.committed(AT, 1, now=5))
    assert (send.identity, send.sequence) == (LetterProducer(78, 0), 0)


def test_a_worker_with_letters_of_its_own_goes_on_counting() -> None:
    window = window_of()
    one, two = started(window.fetched(AT, records([0, 1]), now=0))
    die(window, one, now=1)
    window.failed(two, "ValueError: bad", now=1)
    window.guarantee.committed(AT, 1, now=2)
    commit_in(window.guarantee.letters.sent(AT, 1, now=3))
    assert send_in(window.guarantee.committed(AT, 1, now=4)).sequence == 1


def test_an_intent_for_a_record_that_is_deleted_since_is_given_up() -> None:
    window = window_of()
    _, bad = started(window.fetched(AT, records([0, 1]), now=0))
    commit = commit_in(die(window, bad, now=5))

    heir = at_least_once(Policy(group="billing", dlq="orders.dlq"), COUNTS)
    heir.given(AT, commit.offset, commit.metadata, now=100)
    (later,) = started(heir.fetched(AT, records([7]), now=101))
    heir.succeeded(later, now=102)
    after = commit_in(heir.tick(now=5_000))
    assert (after.offset, after.metadata) == (8, "")


def test_a_smaller_window_still_fetches_the_record_an_intent_waits_for() -> None:
    window = window_of()
    entries = started(window.fetched(AT, records(range(10)), now=0))
    commit = commit_in(die(window, entries[9], now=5))

    heir = at_least_once(Policy(group="billing", dlq="orders.dlq", window=2), COUNTS)
    heir.given(AT, commit.offset, commit.metadata, now=100)
    assert not any(isinstance(e, Pause) for e in heir.fetched(AT, records(range(5)), now=101))
    effects = heir.fetched(AT, records(range(5, 10)), now=102)
    assert send_in(effects).offset == 9
    assert Pause(AT) in effects


def test_a_failing_record_goes_through_the_retry_topic_and_waits_there() -> None:
    window = window_of(retry=Retry(0, rounds=1, delay=(2, 2)), retry_topic="orders.retry")
    (bad,) = started(window.fetched(AT, records([4]), now=0))
    die(window, bad, now=1_000)
    send = send_in(window.guarantee.committed(AT, 1, now=1_001))
    assert send.to == ("orders.retry", 2)
    trail = trail_in(send.headers)
    assert trail is not None
    assert (trail.round, trail.not_before) == (1, 3_000)

    window.given(RETRY_AT, -1, "", now=1_010)
    back = records([0], at=RETRY_AT, headers=send.headers)
    assert window.fetched(RETRY_AT, back, now=1_020) == []
    (again,) = started(window.tick(now=3_000))
    assert again.trail.origin == ("orders", 5, 4)
    window.guarantee.letters.sent(AT, 1, now=3_001)
    window.failed(again, "ValueError: still", now=3_010)
    window.guarantee.identified(RETRY_AT, 2, LetterProducer(78, 0), now=3_011)
    dead = send_in(window.guarantee.committed(RETRY_AT, 2, now=3_012))
    trail = trail_in(dead.headers)
    assert trail is not None
    assert dead.to.topic == "orders.dlq"
    assert (trail.origin, trail.attempts) == (("orders", 5, 4), 2)


def test_a_not_before_in_a_far_year_is_cut_to_the_longest_delay() -> None:
    window = window_of(retry=Retry(0, delay=(1, 5)), retry_topic="orders.retry")
    (bad,) = started(window.fetched(AT, records([4]), now=0))
    die(window, bad, now=1)
    send = send_in(window.guarantee.committed(AT, 1, now=2))
    far = tuple(
        (name, b"9" * 15 if name == "barnabas.not-before" else value)
        for name, value in send.headers
    )
    window.given(RETRY_AT, -1, "", now=10)
    window.fetched(RETRY_AT, records([0], at=RETRY_AT, headers=far), now=10)
    assert offsets(window.tick(now=5_010)) == [0]


def test_records_of_another_group_in_a_shared_retry_topic_are_passed_over() -> None:
    window = window_of(retry_topic="orders.retry")
    window.given(RETRY_AT, -1, "", now=0)
    headers = tuple(
        (f"barnabas.{name}", value)
        for name, value in (
            ("group", b"other"),
            ("origin.topic", b"orders"),
            ("origin.partition", b"0"),
            ("origin.offset", b"3"),
            ("origin.timestamp", b"0"),
        )
    )
    assert window.fetched(RETRY_AT, records([0], at=RETRY_AT, headers=headers), now=0) == []
    assert commit_in(window.tick(now=100)).offset == 1


def test_what_is_rejected_is_dead_at_once() -> None:
    window = window_of(retry=Retry(5, rounds=5), retry_topic="orders.retry")
    (bad,) = started(window.fetched(AT, records([4]), now=0))
    window.failed(bad, "Reject: no such customer", now=1, reject=True)
    window.guarantee.identified(AT, 1, IDENTITY, now=2)
    assert send_in(window.guarantee.committed(AT, 1, now=3)).to.topic == "orders.dlq"


def test_without_a_dead_letter_topic_the_worker_stops() -> None:
    window = window_of(dlq=None)
    (bad,) = started(window.fetched(AT, records([4]), now=0))
    effects = window.failed(bad, "ValueError: bad", now=1)
    assert effects == [Fail(AT, 4, "ValueError: bad (attempt 1; set dlq to continue without it)")]
    assert window.fetched(AT, records([5]), now=2) == []


def test_a_call_whose_time_is_up_is_cancelled_and_counts_as_failed() -> None:
    window = window_of(timeout_ms=50, retry=Retry(1, backoff=(0.1, 0.1)))
    (slow,) = started(window.fetched(AT, records([0]), now=0))
    assert window.tick(now=50) == [Cancel(slow)]
    assert window.cancelled(slow, now=51) == []
    assert offsets(window.tick(now=151)) == [0]
    assert "0.05 s" in slow.trail.cause


def test_a_partition_is_released_when_its_handlers_have_ended_and_their_commit_is_there() -> None:
    window = window_of(concurrency=2)
    one, two = started(window.fetched(AT, records([0, 1, 2]), now=0))
    assert window.revoke([AT], now=10) == []
    assert window.succeeded(one, now=20) == []
    commit = commit_in(window.succeeded(two, now=30))
    assert commit.offset == 2
    assert window.guarantee.committed(AT, 1, now=40) == [Release(AT)]
    assert window.partitions == []


def test_a_handler_that_is_too_slow_for_a_rebalance_is_cancelled() -> None:
    window = window_of()
    one, two = started(window.fetched(AT, records([0, 1]), now=0))
    window.revoke([AT], now=10)
    window.succeeded(one, now=20)
    window.guarantee.committed(AT, 1, now=20)
    effects = window.tick(now=1_010)
    assert Cancel(two) in effects
    assert commit_in(effects).offset == 1
    assert window.succeeded(two, now=1_020) == []
    assert window.guarantee.committed(AT, 1, now=1_030) == [Release(AT)]


def test_a_partition_is_released_even_when_its_last_commit_is_never_answered() -> None:
    window = window_of()
    (one,) = started(window.fetched(AT, records([0]), now=0))
    window.succeeded(one, now=1)
    commit_in(window.revoke([AT], now=10))
    assert window.tick(now=1_010) == []
    assert window.tick(now=1_010 + LAST_COMMIT_MS) == [Release(AT)]


def test_what_is_lost_is_dropped_and_not_committed() -> None:
    window = window_of()
    one, two = started(window.fetched(AT, records([0, 1]), now=0))
    window.succeeded(one, now=5)
    assert window.lost([AT], now=10) == [Cancel(two)]
    assert window.cancelled(two, now=11) == []
    assert window.tick(now=10_000) == []


def test_answers_to_an_earlier_ownership_are_ignored() -> None:
    window = window_of()
    (one,) = started(window.fetched(AT, records([0]), now=0))
    window.succeeded(one, now=1)
    commit_in(window.tick(now=101))
    window.lost([AT], now=102)
    window.given(AT, 0, "", now=103)
    assert window.guarantee.committed(AT, 1, now=104) == []
    assert offsets(window.fetched(AT, records([0]), now=105)) == [0]


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "spark:17",
        '{"barnabas":',
        '{"barnabas":1,"out":[]}',
        '{"barnabas":1,"out":[1,"t",0,-5,0,0,"",0,0,0,0]}',
        '{"barnabas":2,"out":null}',
        '{"barnabas":1,"gone":[0,99999999999]}',
        '{"barnabas":1,"gone":[-4,4]}',
        '{"barnabas":1,"gone":["x"]}',
        "{" * 5_000,
    ],
)
def test_metadata_of_others_and_nonsense_says_nothing(metadata: str) -> None:
    window = at_least_once(Policy(group="billing", dlq="orders.dlq"), COUNTS)
    window.given(AT, 0, metadata, now=0)
    assert offsets(window.fetched(AT, records([0, 1]), now=0)) == [0, 1]


def test_many_letters_ahead_of_a_stuck_record_fit_into_the_metadata_or_wait() -> None:
    window = window_of(window=20_000, concurrency=10_000)
    entries = started(window.fetched(AT, records(range(0, 20_000, 3)), now=0))
    cause = '"' * 2_000
    effects: list[Effect] = []
    for entry in entries[1::2]:
        effects += window.failed(entry, cause, now=1)
    effects += window.guarantee.identified(AT, 1, IDENTITY, now=1)
    sent = 0
    while commits := [effect for effect in effects if isinstance(effect, Commit)]:
        assert len(commits[-1].metadata.encode()) <= 4_096
        effects = window.guarantee.committed(AT, 1, now=2)
        if not any(isinstance(effect, SendLetter) for effect in effects):
            break
        sent += 1
        effects = window.guarantee.letters.sent(AT, 1, now=3)
    assert 100 < sent < len(entries) // 2
    effects = window.succeeded(entries[0], now=4)
    assert commit_in([*effects, *window.tick(now=300)]).offset > 0


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"window": 0}, "window is 0"),
        ({"concurrency": -1}, "concurrency is -1"),
        ({"dlq": "a/b"}, "a/b"),
        ({"dlq": "same", "retry_topic": "same"}, "same"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_by_name(given: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        Policy(group="g", **given)  # type: ignore[arg-type]


def test_pauses_double_up_to_the_longest() -> None:
    retry = Retry(9, backoff=(0.1, 1))
    assert [retry.backoff_ms(n) for n in (1, 2, 3, 4, 5, 1_000)] == [100, 200, 400, 800, 1000, 1000]
    with pytest.raises(InvalidRequest, match="backoff"):
        Retry(3, backoff=(2, 1))


def test_no_more_than_a_window_is_taken_of_what_was_fetched() -> None:
    window = window_of(window=3)
    first, second, third = started(effects := window.fetched(AT, records(range(10)), now=0))
    assert the(Pause, effects) == Pause(AT)
    assert window.wanted_from(AT) == 3
    window.succeeded(second, now=1)
    window.succeeded(third, now=2)
    assert started(window.fetched(AT, records(range(3, 10)), now=3)) == []
    assert the(Resume, window.succeeded(first, now=4)) == Resume(AT)
    assert offsets(window.fetched(AT, records(range(3, 10)), now=5)) == [3, 4, 5]


def test_offsets_without_records_are_committed_when_all_before_them_is_finished() -> None:
    """Markers of transactions: without them the group would lag for ever."""
    window = window_of()
    (first,) = started(window.fetched(AT, records([3]), now=0))
    window.reached(AT, 6, now=1)
    window.succeeded(first, now=2)
    assert commit_in(window.tick(now=102)).offset == 6
    assert window.wanted_from(AT) == 6
    window.guarantee.committed(AT, 1, now=103)
    window.reached(AT, 6, now=104)
    window.reached(AT, 5, now=104)
    assert window.next_deadline() is None
