"""Random requests to a share partition, compared with one that knows every offset."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.coordinators.ports import Now
from barnabas.coordinators.share.acknowledge_ranges import AcknowledgeType, AckRange
from barnabas.coordinators.share.acquiring import AcquireLimits, BatchSpan
from barnabas.coordinators.share.share_partition import (
    ShareOptions,
    SharePartition,
    ShareRoom,
    StateChange,
)
from barnabas.coordinators.share.state_batches import combine
from barnabas.model.errors import Code, KafkaError
from tests.coordinators.share.per_offset import ACQUIRED, PerOffset

LOCKS, LIMIT, LOCK_MS, BATCH = 12, 2, 100, 5
MEMBERS = ("a", "b")
OPTIONS = ShareOptions(lock_ms=LOCK_MS, delivery_limit=LIMIT, locks_max=LOCKS)


class RandomRequests(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.room = ShareRoom()
        self.share = SharePartition(0, 0, OPTIONS, self.room)
        self.model = PerOffset(LIMIT, LOCKS, LOCK_MS)
        self.now = 0
        self.writes: list[tuple[StateChange, list[int]]] = []
        self.stored = combine((), (), 0)
        self.accepted: set[int] = set()
        self.starts = 0

    @rule(member=st.sampled_from(MEMBERS), records=st.integers(1, 8))
    def fetch(self, member: str, records: int) -> None:
        at = self.share.next_fetch_offset(self.now)
        expected = self.model.acquire(member, 10_000, records, self.now)
        if at is None:
            assert expected == []
            return
        base = at - at % BATCH
        spans = (BatchSpan(b, b + BATCH - 1, 0, 1) for b in range(base, base + 60, BATCH))
        found = self.share.acquire(member, at, spans, AcquireLimits(records, 3, True), self.now)
        got = [
            (offset, each.attempts)
            for each in found.ranges
            for offset in range(each.first, each.last + 1)
        ]
        assert got == expected
        assert not self.accepted & {offset for offset, _ in got}

    @rule(
        member=st.sampled_from(MEMBERS),
        at=st.integers(-3, LOCKS + 3),
        lengths=st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 5), st.sampled_from(AcknowledgeType)),
            min_size=1,
            max_size=3,
        ),
    )
    def acknowledge(
        self, member: str, at: int, lengths: list[tuple[int, int, AcknowledgeType]]
    ) -> None:
        ranges = []
        first = max(self.model.start + at, 0)
        for gap, length, type_ in lengths:
            ranges.append(AckRange(first + gap, first + gap + length, type_))
            first += gap + length + 1
        expected = self.model.acknowledge(member, list(ranges), self.now)
        try:
            change = self.share.acknowledge(member, ranges, Now(self.now, self.now))
        except KafkaError as error:
            code = {Code.INVALID_RECORD_STATE: "state", Code.INVALID_REQUEST: "range"}[error.code]
            assert code == expected
            return
        assert not isinstance(expected, str)
        self._wait(change, expected)

    @rule(member=st.sampled_from(MEMBERS))
    def end_session(self, member: str) -> None:
        self._wait(self.share.release(member, Now(self.now, self.now)), self.model.release(member))

    @rule(passed=st.integers(1, LOCK_MS))
    def time_passes(self, passed: int) -> None:
        self.now += passed
        change = self.share.expire(Now(self.now, self.now))
        waiting = self.model.expire(self.now)
        if change is None:
            assert waiting == []
        else:
            self.writes.append((change, waiting))

    @rule(which=st.integers(0, 5), written=st.booleans())
    def write_ends(self, which: int, written: bool) -> None:
        if which >= len(self.writes):
            return
        change, waiting = self.writes.pop(which)
        if written:
            self.stored = combine(self.stored, change.batches, change.start_offset)
            self.accepted |= {offset for offset in waiting if self._is_acceptance(offset)}
            self.share.written(change.token)
        else:
            self.share.refused(change.token)
        self.model.finish(waiting, written)

    @rule(deleted=st.integers(0, LOCKS + 4))
    def records_are_deleted(self, deleted: int) -> None:
        offset = self.model.start + deleted
        self.share.log_start(offset)
        self.model.log_start(offset)

    def _is_acceptance(self, offset: int) -> bool:
        one = self.model.offsets.get(offset)
        return one is not None and one.pending == "acknowledged"

    def _wait(self, change: StateChange | None, waiting: list[int]) -> None:
        if change is None:
            assert waiting == []
            return
        written = [o for each in change.batches for o in range(each.first, each.last + 1)]
        assert sorted(written) == sorted(waiting)
        self.writes.append((change, waiting))

    @invariant()
    def both_agree(self) -> None:
        share, model = self.share, self.model
        assert (share.start, share.end) == (model.start, model.end)
        assert share.start >= self.starts, "the start offset rises"
        self.starts = share.start
        assert share.in_flight <= LOCKS, "the window is bounded"
        assert self.room.runs == len(share.runs)
        complete, at = 0, share.start
        for run in share.runs.all:
            assert run.first == at
            at = run.last + 1
            for offset in range(run.first, run.last + 1):
                one = model.offsets[offset]
                assert run.state.name.lower() == one.state, (run, one)
                assert bool(run.token) == bool(one.pending)
                complete += one.state not in ("available", ACQUIRED) or one.pending in (
                    "acknowledged",
                    "archived",
                )
                if one.state == ACQUIRED:
                    assert (run.owner, run.attempts) == (one.owner, one.attempts)
                    if not run.token:
                        assert run.deadline == one.deadline
                        deadline = share.next_deadline()
                        assert deadline is not None
                        assert deadline <= one.deadline
        assert share.complete == complete


RandomRequests.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestRandomRequests = RandomRequests.TestCase
