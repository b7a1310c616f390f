"""A share partition as people look at it: what is in flight, who holds the window, what failed.

In: a share partition, the time. Out: values.
Always: nothing is changed; the work grows with the runs of one share partition.
"""

from typing import NamedTuple

from barnabas.coordinators.share.delivery_causes import DeliveryFailure
from barnabas.coordinators.share.runs import ACQUIRED, AVAILABLE, Run
from barnabas.coordinators.share.share_partition import SharePartition


class WindowHolder(NamedTuple):
    """The oldest record that is not finished: the start offset cannot pass it.

    `member`: who has it, empty if nobody. `held_ms`: since it was delivered to that member.
    `lock_ms`: until its lock ends. `backoff_ms`: until it may be delivered again. `writing`: an
    acknowledgement of it waits for its write.
    """

    offset: int
    attempts: int
    member: str
    held_ms: int
    lock_ms: int
    backoff_ms: int
    writing: bool


class ShareView(NamedTuple):
    """`in_flight`: offsets between start and end, finished ones too; `limit`: the most of them."""

    start: int
    end: int
    in_flight: int
    limit: int
    acquired: int
    available: int
    delivery_limit: int
    delivered: int
    redelivered: int
    holder: WindowHolder | None
    counts: dict[str, int]
    failures: tuple[DeliveryFailure, ...]


def look(share: SharePartition, now_ms: int) -> ShareView:
    acquired = available = 0
    for run in share.runs.all:
        if run.state is ACQUIRED:
            acquired += len(run)
        elif run.state is AVAILABLE:
            available += len(run)
    statistics = share.statistics
    return ShareView(
        share.start,
        share.end,
        share.in_flight,
        share.options.locks_max,
        acquired,
        available,
        share.options.delivery_limit,
        statistics.acquired,
        statistics.redelivered,
        _holder(share.holder(), now_ms),
        dict(statistics.counts),
        tuple(statistics.failures),
    )


def _holder(run: Run | None, now_ms: int) -> WindowHolder | None:
    if run is None:
        return None
    held = run.state is ACQUIRED
    return WindowHolder(
        run.first,
        run.attempts,
        run.owner if held else "",
        max(0, now_ms - run.acquired_ms) if held else 0,
        max(0, run.deadline - now_ms) if held else 0,
        max(0, run.not_before - now_ms) if run.state is AVAILABLE else 0,
        bool(run.token),
    )
