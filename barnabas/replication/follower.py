"""Decides, for one partition that this broker follows, where to fetch next and where to truncate.

In: the leader's replies, this log's leader epochs. Out: an offset to truncate at, the high
watermark and log start to adopt, pauses.
Always: a log is truncated by leader epochs, never by its high watermark. The high watermark here
is never above the leader's, and never above this log's end.
Not here: the log itself, which partitions share a request (broker/replicas/fetcher.py), the
network.
"""

from typing import NamedTuple, Protocol

from barnabas.model.ids import BrokerId
from barnabas.replication.state import PartitionState

BACKOFF_MS_MIN = 10
BACKOFF_MS_MAX = 1_000


class Epochs(Protocol):
    """Maps leader epochs to offset ranges of a log."""

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]: ...


class LeaderMarks(NamedTuple):
    """The leader's high watermark and log start offset, limited to what this replica has."""

    high_watermark: int
    start: int


class Follower:
    """One leadership that this broker follows. Each new leadership gets a new object."""

    __slots__ = ("backoff_ms", "not_before_ms", "paused", "state")

    def __init__(self, state: PartitionState) -> None:
        self.state = state
        self.paused = False  # the log is being truncated
        self.not_before_ms = 0
        self.backoff_ms = 0

    @property
    def leader(self) -> BrokerId:
        return self.state.leader

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    def update(self, state: PartitionState) -> bool:
        """The controller repeats the state of the same leadership."""
        if state.epochs <= self.state.epochs:
            return False
        self.state = state
        return True

    def is_ready(self, now: int) -> bool:
        return not self.paused and now >= self.not_before_ms

    def failed(self, now: int) -> int:
        """Return the time before which the fetch must not be retried."""
        self.backoff_ms = min(BACKOFF_MS_MAX, max(BACKOFF_MS_MIN, 2 * self.backoff_ms))
        self.not_before_ms = now + self.backoff_ms
        return self.not_before_ms

    def succeeded(self) -> None:
        self.backoff_ms = self.not_before_ms = 0


def truncation_offset(epochs: Epochs, end: int, leader_epoch: int, leader_end: int) -> int:
    """Where to truncate a log that ends at `end`, after the leader replied that the logs diverge.

    The leader's largest epoch that is not above ours ends at `leader_end`. If we do not have that
    epoch, only our epochs before it can be equal; the next fetch compares again.
    """
    own_epoch, own_end = epochs.end_of(leader_epoch, end)
    if own_epoch < 0:
        # Everything here is of later epochs, which the leader does not have.
        return min(leader_end, end)
    if own_epoch != leader_epoch:
        return min(own_end, end)
    return min(own_end, leader_end, end)


def divergence(epochs: Epochs, end: int, last_epoch: int, offset: int) -> tuple[int, int] | None:
    """The leader's side: an epoch and its end offset, if a follower's log divergence from ours.

    `last_epoch`: of the last record before `offset`; -1 if it has none. (-1, -1): cannot be
    decided.
    """
    if last_epoch < 0:
        return None
    epoch, epoch_end = epochs.end_of(last_epoch, end)
    if epoch < 0 or epoch < last_epoch or epoch_end < offset:
        return epoch, epoch_end
    return None


def marks(leader_high_watermark: int, leader_start: int, end: int) -> LeaderMarks:
    """What to adopt from a reply, once its records are in the log."""
    high_watermark = min(leader_high_watermark, end)
    return LeaderMarks(high_watermark, min(leader_start, high_watermark))
