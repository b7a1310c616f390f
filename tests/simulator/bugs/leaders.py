"""Bugs of leaders and followers."""

from typing import Any

from barnabas.broker.partition import Partition
from barnabas.broker.replicas import follower_positions
from barnabas.log.log import Log
from barnabas.replication import follower
from barnabas.replication import leader as leader_module
from barnabas.replication.leader import Leader
from barnabas.wire.batch import read_header
from tests.simulator.bugs.planting import Change, bug


@bug()
def truncates_to_the_high_watermark() -> list[Change]:
    """Hazard 1 (KIP-101): a follower cuts its log at its high watermark, and then leads."""
    follow = Partition.follow

    def cut_first(self: Partition, state: Any, following: Any) -> None:
        follow(self, state, following)
        if self.log.high_watermark < self.log.end_offset:
            self.log.truncate_to(self.log.high_watermark, sync=False)

    return [(Partition, "follow", cut_first)]


@bug()
def never_finds_that_logs_differ() -> list[Change]:
    """Hazard 2 (KIP-279): the leader does not compare epochs, so a follower keeps its own tail."""
    return [(follower_positions, "divergence", lambda *_: None)]


@bug()
def trusts_epochs_it_never_saw() -> list[Change]:
    """Hazard 2 (KIP-279): after fast elections the leader lacks a follower's epoch, and takes what
    it wrote in it for its own."""
    real = follower.divergence

    def divergence(epochs: Any, end: int, last_epoch: int, offset: int) -> Any:
        found = real(epochs, end, last_epoch, offset)
        return None if found is not None and found[0] < last_epoch and offset <= end else found

    return [(follower_positions, "divergence", divergence)]


@bug()
def counts_fetches_of_other_epochs() -> list[Change]:
    """Hazard 3 (KIP-320): a fetch of a follower that knows another leadership moves the mark."""
    return [
        (Partition, "check_leader_epoch", lambda self, claimed: None),
        (follower_positions, "divergence", lambda *_: None),
    ]


@bug()
def lets_replicas_in_early() -> list[Change]:
    """Hazard 4: a replica comes in sync before it has all that was committed."""

    def expand(self: Leader, follower: Any, progress: Any, now: int) -> Any:
        if self.pending is not None or follower in self._isr:
            return None
        return self._propose((*self._isr, follower), "it has asked")

    return [(Leader, "_expand", expand)]


@bug(brokers=5)
def forgets_who_is_about_to_come_in() -> list[Change]:
    """Hazard 5 (KIP-497): the mark counts the old set alone while the new one may hold."""

    def advance(self: Leader, now: int) -> None:
        if len(self._isr) < self.min_isr:
            return
        ends = [p.end for f, p in self._followers.items() if f in self._isr]
        self.high_watermark = max(self.high_watermark, min([self._end, *ends]))

    return [(Leader, "_advance", advance)]


@bug()
def shrinks_before_it_may() -> list[Change]:
    """Hazard 5 (KIP-497): a leader counts without the late ones before the controller agrees."""
    propose = Leader._propose

    def at_once(self: Leader, isr: Any, cause: str) -> Any:
        proposal = propose(self, isr, cause)
        if len(isr) < len(self._isr):
            self._isr = isr
        return proposal

    return [(Leader, "_propose", at_once)]


@bug()
def commits_what_it_has() -> list[Change]:
    """Hazard 9: a leader counts what only it has; a zombie acknowledges."""

    def advance(self: Leader, now: int) -> None:
        self.high_watermark = max(self.high_watermark, self._end)

    return [(Leader, "_advance", advance)]


@bug()
def does_not_wait_for_others() -> list[Change]:
    """Hazard 9: acks=all is answered when the leader has the record."""
    return [(Partition, "wait_for", lambda self, offset, acks: None)]


@bug()
def counts_old_incarnations() -> list[Change]:
    """Hazard 6 (KIP-903): what a follower had before it lost its disk counts as what it has."""
    had: dict[tuple[Leader, int], int] = {}

    def fetched(self: Leader, follower: Any, offset: int, **others: Any) -> Any:
        offset = had[self, follower] = max(offset, had.get((self, follower), 0))
        return real(self, follower, offset, **others)

    real = Leader.fetched
    return [(Leader, "fetched", fetched)]


@bug()
def shows_what_is_not_committed() -> list[Change]:
    """Readers are given records above the high watermark."""

    def read(self: Partition, offset: int, bytes_max: int, min_one: bool) -> Any:
        return self.log.read(offset, bytes_max, self.log.end_offset, min_one)

    return [(Partition, "read", read)]


@bug()
def follows_marks_ahead() -> list[Change]:
    """A follower takes all that it has for committed, and shows it once it leads."""

    def follow_high_watermark(self: Partition, offset: int, size: int) -> None:
        if self.log.end_offset > self.log.high_watermark:
            self._commit(self.log.end_offset, max(size, 1))

    return [(Partition, "follow_high_watermark", follow_high_watermark)]


@bug()
def lets_the_mark_go_back() -> list[Change]:
    """A leader counts who is in sync and has not asked yet as one that has nothing."""

    def advance(self: Leader, now: int) -> None:
        ends = [p.end for f, p in self._followers.items() if f in self._isr]
        self.high_watermark = max(0, min([self._end, *ends]))

    def commit_to(self: Partition, offset: int) -> None:
        real(self, offset)
        if self.leading is not None and offset < self.log.high_watermark:
            self.log.high_watermark = offset

    real = Partition.commit_to
    return [(Leader, "_advance", advance), (Partition, "commit_to", commit_to)]


@bug()
def never_lets_replicas_back() -> list[Change]:
    """Who fell out of sync stays out: no failover is possible in the end."""
    return [
        (Leader, "_expand", lambda self, follower, progress, now: None),
        (leader_module, "JOINING_MS_MAX", 0),
    ]


@bug()
def skips_a_batch_when_following() -> list[Change]:
    """A follower takes the first of several batches for one it has."""
    real = Log.append_fetched

    def append_fetched(self: Log, data: Any, wall_ms: int) -> int:
        first = read_header(memoryview(data), 0)
        behind = first.size if first.base_offset == self.end_offset else 0
        return real(self, data[behind:] if behind < len(data) else data, wall_ms)

    return [(Log, "append_fetched", append_fetched)]
