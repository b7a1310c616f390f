"""Decides which records of a share partition a fetch gets.

In: the batches that were read, as spans of offsets; how many records the member asked for. Out: the
ranges that it has acquired, and which part of the read bytes has them.
Always: a record that may make consumers fail is delivered with fewer and fewer of its neighbours,
and alone at its last attempt; nothing beyond the window is acquired; work grows with batches and
runs.
Not here: the runs themselves (share_partition.py), reading batches (broker/share).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.coordinators.share.runs import ACQUIRED, ARCHIVED, AVAILABLE, Run

if TYPE_CHECKING:
    from barnabas.coordinators.share.share_partition import SharePartition


class BatchSpan(NamedTuple):
    """One record batch of the log. `empty`: no record of it is for consumers (a marker, a batch of
    an aborted transaction, or one that compaction has emptied)."""

    base: int
    last: int
    position: int
    size: int
    empty: bool = False


class AcquiredRange(NamedTuple):
    first: int
    last: int
    attempts: int


class AcquireLimits(NamedTuple):
    """`strict`: never more than `records`, even if a batch is cut (KIP-1206)."""

    records: int
    batch_size: int
    strict: bool = False


class Acquisition:
    """What one fetch got of one share partition."""

    __slots__ = ("end_position", "first_position", "moved", "ranges", "records")

    def __init__(self) -> None:
        self.ranges: list[AcquiredRange] = []
        self.records = 0
        self.first_position = -1
        self.end_position = -1
        self.moved = False  # offsets without records were passed over: there may be more to read

    def took(self, first: int, last: int, count: int, span: BatchSpan, split_at: int) -> None:
        """`split_at`: a range of this many records ends at the next batch."""
        self.records += last - first + 1
        if self.first_position < 0:
            self.first_position = span.position
        self.end_position = span.position + span.size
        if self.ranges:
            before = self.ranges[-1]
            fits = first != span.base or first - before.first < split_at
            if before.last + 1 == first and before.attempts == count and fits:
                self.ranges[-1] = AcquiredRange(before.first, last, count)
                return
        self.ranges.append(AcquiredRange(first, last, count))


def throttled_at(delivery_limit: int) -> int:
    """The number of attempts after which records are delivered with fewer neighbours."""
    return max(2, (delivery_limit + 1) // 2)


def acquire(
    share: "SharePartition",
    member: str,
    fetch_offset: int,
    spans: Iterable[BatchSpan],
    limits: AcquireLimits,
    now_ms: int,
) -> Acquisition:
    """`spans`: from the batch that has `fetch_offset`, or from the next one if there is none."""
    found = Acquisition()
    if limits.records <= 0:
        return found
    at = min(max(fetch_offset, share.start), share.end + 1)
    for span in spans:
        if span.last < at:
            continue
        first = max(span.base, at)
        if first > at and not _pass_over(share, at, first - 1, found):
            break
        if first > max(share.window_end, share.end):
            break
        if span.empty:
            if not _pass_over(share, first, span.last, found):
                break
        elif not _take(share, member, first, span, limits, now_ms, found):
            break
        at = span.last + 1
        if found.records >= limits.records:
            break
    if found.records:
        share.runs.merge(found.ranges[0].first, found.ranges[-1].last)
    share.settle()
    return found


def _pass_over(share: "SharePartition", first: int, last: int, found: Acquisition) -> bool:
    """No consumer will ever get these offsets; False if the window ends among them."""
    found.moved = True
    share.settle()
    for run in share.runs.exactly(first, min(last, share.end)) if first <= share.end else ():
        if run.state is AVAILABLE and not run.token:
            run.state = run.target = ARCHIVED
            share.complete += len(run)
    share.settle()
    first = max(first, share.end + 1)
    if first > last:
        return True
    if not share.runs:
        share.start = last + 1
        return True
    stop = min(last, share.window_end)
    if first <= stop:
        share.runs.append(Run(first, stop, ARCHIVED, 0))
        share.complete += stop - first + 1
        share.runs.merge(first, stop)
    return stop == last


def _take(
    share: "SharePartition",
    member: str,
    first: int,
    span: BatchSpan,
    limits: AcquireLimits,
    now_ms: int,
    found: Acquisition,
) -> bool:
    """Acquire what is available of one batch; False if no further batch may follow."""
    throttle = throttled_at(share.options.delivery_limit)
    last_attempt = share.options.delivery_limit - 1
    end = share.end
    known = share.runs.covering(first, span.last) if first <= end else []
    for run in known:
        if run.state is not AVAILABLE or run.token or run.not_before > now_ms:
            continue
        start, stop = max(run.first, first), min(run.last, span.last)
        suspected = run.attempts >= throttle
        if suspected:
            if found.records:
                return False
            shift = run.attempts - throttle + 1
            alone = run.attempts >= last_attempt
            stop = min(stop, start + max(1, 0 if alone else len(run) >> shift) - 1)
        if limits.strict:
            stop = min(stop, start + limits.records - found.records - 1)
        count = run.attempts + 1
        for part in share.runs.exactly(start, stop):
            _lock(share, part, member, count, now_ms)
        found.took(start, stop, count, span, limits.batch_size)
        if suspected or (limits.strict and found.records >= limits.records):
            return False
    start, stop = max(first, end + 1), min(span.last, share.window_end)
    if share.room.is_full:  # those in flight go on, or the room would stay full for ever
        stop = min(stop, end)
    if limits.strict:
        stop = min(stop, start + limits.records - found.records - 1)
    if start > stop:
        return start > span.last
    run = Run(start, stop, ACQUIRED, 0)
    share.runs.append(run)
    _lock(share, run, member, 1, now_ms)
    found.took(start, stop, 1, span, limits.batch_size)
    return stop == span.last


def _lock(share: "SharePartition", run: Run, member: str, count: int, now_ms: int) -> None:
    run.state = run.target = ACQUIRED
    run.attempts = count
    run.owner = member
    run.acquired_ms = now_ms
    run.deadline = now_ms + share.options.lock_ms
    run.not_before = 0
    share.due_at(run.deadline)
    share.statistics.delivered(len(run), count)
