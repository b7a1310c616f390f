"""Decides which log is compacted next, how much of it, and says why.

In: logs, wall time. Out: for each compacted log how dirty it is, and the dirtiest that is due.
Always: the active segment, what is above the last stable offset, what is not yet synced, and what
is younger than min.compaction.lag.ms are left alone. So every transaction with a record in what is
compacted is decided; its marker may be in a later segment.
Not here: the work (compaction.py).
"""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.log.compaction.job import CompactionJob, SealedSegment
from barnabas.log.config import INT64_MAX
from barnabas.log.log import Log
from barnabas.log.segments.segment import Segment


class Cleanable(NamedTuple):
    """How dirty one log is. `due`: why it should be compacted now, or nothing."""

    log: Log
    dirty_from: int
    dirty_to: int
    clean_bytes: int
    dirty_bytes: int
    due: str
    cuts: int  # truncations that the log had seen

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def look(log: Log, wall_ms: int) -> Cleanable:
    """How dirty a log is now."""
    config, segments = log.config, log.segments
    first = max(log.cleaned_to, log.start_offset)
    if first > log.end_offset:
        first = log.start_offset
    clean_bytes = dirty_bytes = 0
    last = first
    stable = log.last_stable_offset
    oldest = INT64_MAX
    for segment in segments[:-1]:
        if segment.next_offset <= first:
            clean_bytes += segment.size
            continue
        if not segment.durable or segment.next_offset > stable:
            break
        lag_ms = config.min_compaction_lag_ms
        if lag_ms > 0 and segment.largest_timestamp() > wall_ms - lag_ms:
            break
        dirty_bytes += segment.size
        last = segment.next_offset
        if config.max_compaction_lag_ms < INT64_MAX:
            stamp = segment.first_time()
            if stamp > 0:
                oldest = min(oldest, stamp)
    found = Cleanable(log, first, last, clean_bytes, dirty_bytes, "", log.cuts)
    if not dirty_bytes:
        return found
    ratio, least = found.dirty_ratio, config.min_cleanable_dirty_ratio
    due = ""
    if oldest < wall_ms - config.max_compaction_lag_ms:
        waited = wall_ms - oldest
        due = (
            f"records wait for {waited} ms, max.compaction.lag.ms = {config.max_compaction_lag_ms}"
        )
    elif ratio > least:
        due = f"{ratio:.0%} is dirty, min.cleanable.dirty.ratio = {least}"
    return found._replace(due=due)


def may_be_due(log: Log) -> bool:
    """A quick look: most logs have nothing but an active segment."""
    return log.config.compacted and len(log.segments) > 1


def dirtiest(found: Iterable[Cleanable]) -> Cleanable | None:
    """The one to compact next, if any is due."""
    due = [each for each in found if each.due]
    return max(due, key=lambda each: each.dirty_ratio, default=None)


def job_for(cleanable: Cleanable, wall_ms: int, keys_bytes_max: int) -> CompactionJob:
    """What the worker needs to know; the log may go on changing meanwhile.

    Checkpoint the log before: a start after a crash must know what may have been compacted.
    """
    log, config = cleanable.log, cleanable.log.config
    sealed = [each for each in log.segments[:-1] if each.next_offset <= cleanable.dirty_to]
    sources = [
        SealedSegment(each.base_offset, each.next_offset, each.size, _has_aborted(log, each))
        for each in sealed
    ]
    states = log.producers.entries.values()
    last_offsets = ((state.producer_id, state.last_offset) for state in states)
    return CompactionJob(
        path=log.path,
        sources=sources,
        dirty_from=cleanable.dirty_from,
        dirty_to=cleanable.dirty_to,
        wall_ms=wall_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
        producers={
            producer_id: last_offset
            for producer_id, last_offset in last_offsets
            if 0 <= last_offset < cleanable.dirty_to
        },
        epoch_starts=[start for _, start in log.epochs.entries if start > log.start_offset],
        marked_epochs={state.producer_id: state.epoch for state in states if not state.batches},
        aborted_behind=_aborted_behind(log, log.segments[len(sealed) :], cleanable.dirty_to),
        keys_bytes_max=keys_bytes_max,
        cuts=cleanable.cuts,
    )


def _has_aborted(log: Log, segment: Segment) -> bool:
    return log.has_aborted and segment.has_aborted()


def _aborted_behind(
    log: Log, segments: list[Segment], offset: int
) -> list[tuple[int, int, int, int]]:
    """Aborted transactions that begin below `offset` and end in `segments`."""
    found: list[tuple[int, int, int, int]] = []
    for segment in segments if log.has_aborted else ():
        more, is_complete = segment.aborted.find(0, offset)
        found += more
        if is_complete:
            break
    return found
