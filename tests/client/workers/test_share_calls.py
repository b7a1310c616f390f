"""Which records of a share group a worker takes, renews and acknowledges."""

from barnabas.client.share.acknowledge_type import AcknowledgeType
from barnabas.client.workers.share_calls import ShareCalls

LOCK_MS = 3_000


def test_no_more_records_are_taken_than_calls_may_run() -> None:
    calls = ShareCalls(2, None)
    first = calls.start(0, LOCK_MS)
    calls.start(0, LOCK_MS)
    assert calls.free == 0
    assert calls.end(first, failed=False, reject=False) is AcknowledgeType.ACCEPT
    assert calls.free == 1


def test_a_record_is_acknowledged_once_by_how_its_call_ended() -> None:
    calls = ShareCalls(3, None)
    numbers = [calls.start(0, LOCK_MS) for _ in range(3)]
    assert calls.end(numbers[0], failed=True, reject=False) is AcknowledgeType.RELEASE
    assert calls.end(numbers[1], failed=True, reject=True) is AcknowledgeType.REJECT
    assert calls.end(numbers[1], failed=False, reject=False) is None


def test_a_lock_is_renewed_when_two_thirds_of_it_have_passed() -> None:
    calls = ShareCalls(3, None)
    number = calls.start(0, LOCK_MS)
    assert calls.renewals(1_999, LOCK_MS) == []
    assert calls.next_deadline() == 2_000
    assert calls.renewals(2_000, LOCK_MS) == [number]
    assert calls.renewals(3_999, LOCK_MS) == []
    calls.end(number, failed=False, reject=False)
    assert calls.renewals(9_000, LOCK_MS) == []


def test_a_call_that_takes_too_long_is_named_until_it_has_ended() -> None:
    calls = ShareCalls(1, timeout_ms=500)
    number = calls.start(0, LOCK_MS)
    assert calls.timed_out(499) == []
    assert calls.timed_out(500) == [number]
    calls.end(number, failed=True, reject=False)
    assert calls.timed_out(501) == []
