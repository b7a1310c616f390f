"""Merges the ranges of offsets that a share partition has stored with newer ones.

In: ranges, each with a delivery state and a count. Out: ranges that do not overlap, by offset.
Always: the result is that of Kafka's coordinator: where ranges overlap, the larger delivery count
wins, and then the larger state; equal neighbours become one; what is below the start offset goes.
"""

from enum import IntEnum
from typing import NamedTuple


class DeliveryState(IntEnum):
    """Of a record in a share partition; ACQUIRED is never stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class StateBatch(NamedTuple):
    """A range of offsets, both ends included."""

    first: int
    last: int
    state: int
    attempts: int


STORED = frozenset((DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED))


def combine(
    so_far: tuple[StateBatch, ...], newer: tuple[StateBatch, ...], start_offset: int
) -> tuple[StateBatch, ...]:
    """`so_far` does not overlap and is sorted; `newer` may be in any order."""
    if start_offset >= 0:
        so_far = _above(so_far, start_offset)
        newer = _above(newer, start_offset)
    if not newer:
        return so_far
    pending = sorted((*so_far, *newer), reverse=True)  # the last one is the next by offset
    merged: list[StateBatch] = []
    while pending:
        batch = pending.pop()
        if not merged or batch.first > merged[-1].last:
            _append(merged, batch)
            continue
        before = merged.pop()
        rank, other = (before.attempts, before.state), (batch.attempts, batch.state)
        if other <= rank:  # what is left of the newer one begins after the other
            merged.append(before)
            if batch.last > before.last:
                _later(pending, batch._replace(first=before.last + 1))
            continue
        if before.last > batch.last:
            _later(pending, before._replace(first=batch.last + 1))
        if before.first < batch.first:
            merged.append(before._replace(last=batch.first - 1))
        _append(merged, batch)
    return tuple(merged)


def _append(merged: list[StateBatch], batch: StateBatch) -> None:
    if merged:
        before = merged[-1]
        if before.last + 1 == batch.first and before[2:] == batch[2:]:
            merged[-1] = before._replace(last=batch.last)
            return
    merged.append(batch)


def _later(pending: list[StateBatch], batch: StateBatch) -> None:
    """Insert it where it belongs by offset; mostly that is at the end."""
    at = len(pending)
    while at and pending[at - 1] < batch:
        at -= 1
    pending.insert(at, batch)


def _above(batches: tuple[StateBatch, ...], start_offset: int) -> tuple[StateBatch, ...]:
    if all(batch.first >= start_offset for batch in batches):
        return batches
    return tuple(
        batch if batch.first >= start_offset else batch._replace(first=start_offset)
        for batch in batches
        if batch.last >= start_offset
    )
