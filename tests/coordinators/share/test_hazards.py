"""What goes wrong in share groups, each once: the leader's side."""

from typing import Any

import pytest

from barnabas.coordinators.ports import Now
from barnabas.coordinators.share.acknowledge_ranges import AcknowledgeType, AckRange, ack_ranges
from barnabas.coordinators.share.acquiring import AcquiredRange, AcquireLimits, BatchSpan
from barnabas.coordinators.share.delivery_causes import DeliveryCause
from barnabas.coordinators.share.runs import Run
from barnabas.coordinators.share.share_partition import (
    ShareOptions,
    SharePartition,
    ShareRoom,
    StateChange,
)
from barnabas.coordinators.share.state_batches import StateBatch
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.share_fetch import AcknowledgementBatch

ACCEPT, RELEASE, REJECT, RENEW, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
    AcknowledgeType.GAP,
)


class Leader:
    """A share partition over a log of batches of ten records."""

    def __init__(
        self,
        options: ShareOptions | None = None,
        stored: tuple[StateBatch, ...] = (),
        empty: frozenset[int] = frozenset(),
        size: int = 10,
        start: int = 0,
    ) -> None:
        self.share = SharePartition(start, 0, options or ShareOptions(), stored=stored)
        self.now = 0
        self.end = 10_000
        self.size = size
        self.empty = empty  # batches, by base offset

    @property
    def time(self) -> Now:
        return Now(self.now, 1_000 + self.now)

    def fetch(
        self, member: str = "a", records: int = 500, strict: bool = False
    ) -> list[AcquiredRange]:
        at = self.share.next_fetch_offset(self.now)
        if at is None:
            return []
        size = self.size
        spans = (
            BatchSpan(base, base + size - 1, base, size, base in self.empty)
            for base in range(at - at % size, self.end, size)
        )
        return self.share.acquire(
            member, at, spans, AcquireLimits(records, 500, strict), self.now
        ).ranges

    def ack(
        self, first: int, last: int, type_: AcknowledgeType = ACCEPT, member: str = "a"
    ) -> StateChange | None:
        return self.share.acknowledge(member, [AckRange(first, last, type_)], self.time)

    def write(self, change: StateChange | None) -> None:
        assert change is not None
        self.share.written(change.token)

    def refused_code(
        self, first: int, last: int, type_: AcknowledgeType = ACCEPT, member: str = "a"
    ) -> Code:
        with pytest.raises(KafkaError) as refused:
            self.ack(first, last, type_, member)
        return refused.value.code


def test_offsets_between_stored_ranges_are_delivered_again() -> None:
    """They were acquired when the last leader ended."""
    leader = Leader(stored=(StateBatch(3, 6, 2, 1), StateBatch(12, 15, 0, 2)))
    assert leader.fetch(records=20) == [
        AcquiredRange(0, 2, 1),
        AcquiredRange(7, 11, 1),
        AcquiredRange(12, 15, 3),
        AcquiredRange(16, 29, 1),
    ]


def test_a_released_record_is_available_when_its_write_is_committed() -> None:
    leader = Leader()
    leader.fetch(records=10)
    change = leader.ack(0, 9, RELEASE)
    leader.end = 10
    assert leader.fetch("b") == []
    leader.write(change)
    assert leader.fetch("b") == [AcquiredRange(0, 9, 2)]


def test_a_lock_that_ends_during_a_write_that_fails_frees_the_record() -> None:
    leader = Leader()
    leader.fetch(records=10)
    change = leader.ack(0, 9)
    assert change is not None
    leader.now = 30_000
    assert leader.share.expire(leader.time) is None
    leader.share.refused(change.token)
    assert leader.share.next_deadline() == 30_000
    assert leader.share.expire(leader.time) is not None
    leader.end = 10
    assert leader.fetch("b") == [AcquiredRange(0, 9, 2)]


def test_a_lock_that_ends_after_the_acknowledgement_changes_nothing() -> None:
    leader = Leader()
    leader.fetch(records=10)
    change = leader.ack(0, 9)
    leader.now = 30_000
    leader.share.expire(leader.time)
    leader.write(change)
    leader.share.expire(leader.time)
    assert leader.share.start == 10


def test_the_answer_to_a_write_does_not_revive_deleted_records() -> None:
    leader = Leader()
    leader.fetch(records=20)
    change = leader.ack(0, 14, RELEASE)
    leader.share.log_start(12)
    leader.write(change)
    assert (leader.share.start, leader.share.complete) == (12, 0)
    assert leader.fetch("b", 5)[0] == AcquiredRange(12, 14, 2)


def test_a_loaded_state_that_is_all_finished_leaves_the_window_empty() -> None:
    options = ShareOptions(locks_max=100)
    leader = Leader(options, stored=(StateBatch(0, 49, 2, 1), StateBatch(50, 99, 4, 5)))
    assert (leader.share.start, leader.share.in_flight, leader.share.complete) == (100, 0, 0)
    assert leader.fetch(records=10) == [AcquiredRange(100, 109, 1)]


def test_one_record_that_is_renewed_for_ever_bounds_the_window() -> None:
    leader = Leader(ShareOptions(locks_max=200))
    leader.fetch(records=1, strict=True)
    for _ in range(1_000):
        for first, last, _ in leader.fetch(records=50, strict=True):
            leader.write(leader.ack(first, last))
        leader.now += 10_000
        leader.ack(0, 0, RENEW)
        leader.share.expire(leader.time)
    assert leader.share.in_flight == 200
    assert len(leader.share.runs) == 2
    assert leader.share.next_fetch_offset(leader.now) is None
    leader.write(leader.ack(0, 0))
    assert leader.share.next_fetch_offset(leader.now) == 200


def test_a_window_is_never_exceeded_by_a_large_batch() -> None:
    leader = Leader(ShareOptions(locks_max=100), size=1_000)
    assert leader.fetch() == [AcquiredRange(0, 99, 1)]
    assert leader.fetch("b") == []


def test_of_a_refused_acknowledgement_nothing_is_applied() -> None:
    leader = Leader()
    leader.fetch(records=20)
    leader.write(leader.ack(5, 5))
    with pytest.raises(KafkaError):
        leader.share.acknowledge("a", [AckRange(0, 4, ACCEPT), AckRange(5, 9, ACCEPT)], leader.time)
    leader.write(leader.ack(0, 4))
    assert leader.share.start == 6


@pytest.mark.parametrize(
    ("first", "last", "member", "code"),
    [
        (0, 4, "b", Code.INVALID_RECORD_STATE),
        (15, 25, "a", Code.INVALID_REQUEST),
        (1_000, 1_001, "a", Code.INVALID_REQUEST),
    ],
)
def test_an_acknowledgement_of_records_that_the_member_does_not_hold(
    first: int, last: int, member: str, code: Code
) -> None:
    leader = Leader()
    leader.fetch(records=20)
    assert leader.refused_code(first, last, member=member) is code


def test_an_acknowledgement_below_the_start_is_confirmed() -> None:
    leader = Leader()
    leader.fetch(records=20)
    leader.write(leader.ack(0, 9))
    assert leader.ack(0, 9) is None
    assert leader.ack(3, 9, member="b") is None


def test_an_acknowledgement_after_the_lock_has_ended_is_refused() -> None:
    leader = Leader()
    leader.fetch(records=10)
    leader.now = 30_000
    leader.share.expire(leader.time)
    assert leader.refused_code(0, 9) is Code.INVALID_RECORD_STATE


def test_a_record_that_is_being_acknowledged_cannot_be_acknowledged_again() -> None:
    leader = Leader()
    leader.fetch(records=10)
    change = leader.ack(0, 9)
    assert leader.refused_code(0, 9) is Code.INVALID_RECORD_STATE
    leader.write(change)


def test_a_poison_record_does_not_archive_its_neighbours() -> None:
    """One of 16 records fails whenever it is delivered, with all that came with it."""
    leader = Leader(size=16)
    leader.end = 16
    accepted: list[int] = []
    poison, fetches = 5, 0
    while leader.share.start < 16:
        ranges = leader.fetch()
        fetches += 1
        assert ranges, leader.share.runs.all
        fails = any(first <= poison <= last for first, last, _ in ranges)
        for first, last, _ in ranges:
            leader.write(leader.ack(first, last, RELEASE if fails else ACCEPT))
            if not fails:
                accepted += range(first, last + 1)
    assert sorted(accepted) == [offset for offset in range(16) if offset != poison]
    assert leader.share.statistics.counts["archived"] == 1
    assert fetches < 40


def test_offsets_without_records_do_not_hold_the_start() -> None:
    """Markers, aborted batches, batches that compaction has emptied or removed."""
    leader = Leader(empty=frozenset(range(0, 50, 10)) | frozenset({70}))
    leader.end = 80
    for first, last, _ in leader.fetch():
        leader.write(leader.ack(first, last))
    assert leader.share.start == 80
    leader = Leader(stored=(StateBatch(30, 40, 0, 1),))
    spans = [BatchSpan(60, 69, 0, 10)]
    leader.share.acquire("a", 0, spans, AcquireLimits(5, 500), 0)
    assert leader.share.start == 60


def test_a_hole_of_a_million_offsets_takes_no_memory() -> None:
    leader = Leader()
    leader.fetch(records=10)
    spans = [BatchSpan(1_000_000, 1_000_009, 0, 10)]
    found = leader.share.acquire("b", 10, spans, AcquireLimits(5, 500), 0)
    assert found.ranges == []
    assert leader.share.in_flight <= 2_000
    leader.write(leader.ack(0, 9))
    leader.share.acquire("b", leader.share.start, spans, AcquireLimits(5, 500), 0)
    assert leader.share.start == 1_000_000


def test_a_record_at_the_delivery_limit_is_archived_with_its_cause() -> None:
    leader = Leader(ShareOptions(delivery_limit=2))
    leader.end = 10
    leader.fetch()
    leader.write(leader.ack(0, 9, RELEASE))
    leader.fetch()
    leader.now = 30_000
    change = leader.share.expire(leader.time)
    assert change is not None
    (dead,) = change.dead
    assert (dead.first, dead.last, dead.attempts, dead.cause, dead.member) == (
        0, 9, 2, DeliveryCause.LIMIT, "a",
    )  # fmt: skip
    assert leader.share.start == 0, "until that is written, the start must not pass it"
    leader.write(change)
    assert leader.share.start == 10
    assert [failure.cause for failure in leader.share.statistics.failures] == [
        DeliveryCause.RELEASED,
        DeliveryCause.EXPIRED,
    ]


def test_a_released_record_comes_after_its_backoff() -> None:
    leader = Leader(ShareOptions(backoff_ms=1_000))
    leader.end = 10
    leader.fetch()
    leader.write(leader.ack(0, 9, RELEASE))
    assert leader.fetch() == []
    assert leader.share.next_deadline() == 1_000
    leader.now = 999
    assert leader.fetch() == []
    leader.now = 1_000
    assert leader.fetch() == [AcquiredRange(0, 9, 2)]
    leader.write(leader.ack(0, 9, RELEASE))
    leader.now = 2_999
    assert leader.fetch() == []
    leader.now = 3_000
    assert leader.fetch() == [AcquiredRange(0, 9, 3)]


def test_a_session_that_ends_releases_what_its_member_holds() -> None:
    leader = Leader()
    leader.fetch("a", 10)
    leader.fetch("b", 10)
    change = leader.share.release("a", leader.time)
    assert change is not None
    assert change.batches == (StateBatch(0, 9, 0, 1),)
    leader.write(change)
    assert leader.fetch("c", 10) == [AcquiredRange(0, 9, 2)]


def test_whole_batches_are_acquired_unless_the_limit_is_strict() -> None:
    assert Leader().fetch(records=5) == [AcquiredRange(0, 9, 1)]
    assert Leader().fetch(records=5, strict=True) == [AcquiredRange(0, 4, 1)]


def test_ranges_of_a_reply_end_near_the_batch_size() -> None:
    leader = Leader()
    spans = (BatchSpan(base, base + 9, base, 10) for base in range(0, 100, 10))
    found = leader.share.acquire("a", 0, spans, AcquireLimits(100, 25), 0)
    assert [(each.first, each.last) for each in found.ranges] == [
        (0, 29),
        (30, 59),
        (60, 89),
        (90, 99),
    ]
    assert (found.first_position, found.end_position, found.records) == (0, 100, 100)


def test_a_broker_with_too_many_runs_acquires_nothing_more() -> None:
    room = ShareRoom(runs_max=2)
    share = SharePartition(0, 0, ShareOptions(), room)
    spans = [BatchSpan(0, 9, 0, 10)]
    share.acquire("a", 0, spans, AcquireLimits(10, 10), 0)
    share.acknowledge("a", [AckRange(5, 5, ACCEPT)], Now(0, 0))
    assert room.runs == 3
    assert share.acquire("a", 10, [BatchSpan(10, 19, 0, 9)], AcquireLimits(9, 9), 0).ranges == []
    share.close()
    assert room.runs == 0


def test_records_in_flight_come_again_although_the_broker_has_too_many_runs() -> None:
    """Or nothing could ever be finished, and the broker would stay full."""
    room = ShareRoom(runs_max=2)
    share = SharePartition(0, 0, ShareOptions(), room)
    share.acquire("a", 0, [BatchSpan(0, 9, 0, 10)], AcquireLimits(10, 10), 0)
    share.acknowledge("a", [AckRange(5, 5, ACCEPT)], Now(0, 0))
    assert room.is_full
    share.expire(Now(30_000, 0))
    spans = [BatchSpan(0, 9, 0, 10), BatchSpan(10, 19, 10, 10)]
    found = share.acquire("b", 0, spans, AcquireLimits(50, 50), 30_000)
    assert [(each.first, each.last) for each in found.ranges] == [(0, 4), (6, 9)]


def batch(first: int, last: int, *types: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))


@pytest.mark.parametrize(
    "bad",
    [
        [batch(5, 4, 1)],
        [batch(0, 4, 1), batch(2, 6, 1)],
        [batch(0, 4)],
        [batch(0, 4, 1, 1)],
        [batch(0, 0, 5)],
        [batch(0, 0, -1)],
        [batch(0, 0, 4)],
    ],
)
def test_malformed_acknowledgements_are_an_invalid_request(
    bad: list[AcknowledgementBatch],
) -> None:
    with pytest.raises(KafkaError) as refused:
        ack_ranges(bad, may_renew=False)
    assert refused.value.code is Code.INVALID_REQUEST


def test_types_of_single_offsets_become_ranges() -> None:
    assert ack_ranges([batch(0, 4, 1, 1, 2, 0, 0), batch(9, 10, 4)], may_renew=True) == [
        AckRange(0, 1, ACCEPT),
        AckRange(2, 2, RELEASE),
        AckRange(3, 4, GAP),
        AckRange(9, 10, RENEW),
    ]


def test_a_rejected_record_is_dead() -> None:
    leader = Leader()
    leader.fetch(records=10)
    change = leader.ack(3, 3, REJECT)
    assert change is not None
    assert [(each.first, each.cause) for each in change.dead] == [(3, DeliveryCause.REJECTED)]


def test_a_renewal_beside_an_acceptance_does_not_accept_the_renewed_record() -> None:
    leader = Leader()
    leader.fetch()
    ranges = [AckRange(0, 0, ACCEPT), AckRange(1, 1, RENEW)]
    change = leader.share.acknowledge("a", ranges, leader.time)
    assert change is not None
    assert [(each.first, each.last) for each in change.batches] == [(0, 0)]
    leader.write(change)
    assert leader.share.start == 1


class CountedList(list[Run]):
    """Counts how many runs are looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)

    def __iter__(self) -> Any:
        for run in super().__iter__():
            self.looks += 1
            yield run


def test_looking_for_an_available_record_does_not_pass_over_the_whole_window_each_time() -> None:
    """A fetch that waits looks after each acknowledgement."""
    leader = Leader()
    leader.fetch(records=2_000)
    for offset in range(1, 2_000, 2):
        leader.write(leader.ack(offset, offset))
    runs = leader.share.runs.all = CountedList(leader.share.runs.all)
    assert len(runs) == 2_000
    assert leader.share.next_fetch_offset(0) is None
    runs.looks = 0
    assert leader.share.next_fetch_offset(0) is None
    assert runs.looks < 10
    leader.write(leader.ack(500, 500, RELEASE))
    assert leader.share.next_fetch_offset(0) == 500
