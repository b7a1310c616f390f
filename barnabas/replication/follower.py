"""Decides, for one partition that this broker follows, where it goes on and where its log is cut.

In: the leader's answers, the own epochs. Out: an offset to cut at, marks to take over, pauses.
Always: a log is cut by leader epochs, never by its high watermark; the watermark here is never
above the leader's, nor above the own end.
Not here: the log itself, which partitions share a request (broker/replicas/fetcher.py), the
network.
"""

from typing import NamedTuple, Protocol

from barnabas.model.ids import BrokerId
from barnabas.replication.state import PartitionState

BACKOFF_MS_MIN = 10
BACKOFF_MS_MAX = 1_000


class Epochs(Protocol):
    """Which leader wrote which part of a log."""

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]: ...


class LeaderMarks(NamedTuple):
    """How far the leader's log counts, as far as this replica can follow."""

    high_watermark: int
    start: int


class Follower:
    """One leadership that this broker follows; a new one makes a new object."""

    __slots__ = ("backoff_ms", "not_before_ms", "paused", "state")

    def __init__(self, state: PartitionState) -> None:
        self.state = state
        self.paused = False  # its log is being cut
        self.not_before_ms = 0
        self.backoff_ms = 0

    @property
    def leader(self) -> BrokerId:
        return self.state.leader

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    def update(self, state: PartitionState) -> bool:
        """The same leadership, said anew."""
        if state.age <= self.state.age:
            return False
        self.state = state
        return True

    def is_ready(self, now: int) -> bool:
        return not self.paused and now >= self.not_before_ms

    def failed(self, now: int) -> int:
        """Not again before the time returned."""
        self.backoff_ms = min(BACKOFF_MS_MAX, max(BACKOFF_MS_MIN, 2 * self.backoff_ms))
        self.not_before_ms = now + self.backoff_ms
        return self.not_before_ms

    def succeeded(self) -> None:
        self.backoff_ms = self.not_before_ms = 0


def cut_at(epochs: Epochs, end: int, leader_epoch: int, leader_end: int) -> int:
    """Where a log that ends at `end` is cut after the leader's answer that they differ.

    The leader's largest epoch not above ours ends at `leader_end`. Where we do not have that
    epoch, ours before it is all that can be the same; the next fetch asks again.
    """
    own_epoch, own_end = epochs.end_of(leader_epoch, end)
    if own_epoch < 0:
        # Everything here is of later epochs, which the leader does not have.
        return min(leader_end, end)
    if own_epoch != leader_epoch:
        return min(own_end, end)
    return min(own_end, leader_end, end)


def diverges(epochs: Epochs, end: int, last_epoch: int, offset: int) -> tuple[int, int] | None:
    """The leader's side: an epoch and its end, if a follower's log is not the beginning of ours.

    `last_epoch`: of the last record before `offset`; -1 if it has none. (-1, -1): nobody can tell.
    """
    if last_epoch < 0:
        return None
    epoch, epoch_end = epochs.end_of(last_epoch, end)
    if epoch < 0 or epoch < last_epoch or epoch_end < offset:
        return epoch, epoch_end
    return None


def marks(leader_high_watermark: int, leader_start: int, end: int) -> LeaderMarks:
    """What to take over from a reply, once its records are in the log."""
    high_watermark = min(leader_high_watermark, end)
    return LeaderMarks(high_watermark, min(leader_start, high_watermark))
