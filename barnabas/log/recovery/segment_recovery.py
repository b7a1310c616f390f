"""Checks one segment after a crash, batch by batch, and truncates it at the first damaged one.

In: a segment, producers and epochs as they were before it. Out: both as they are after it, the
segment with new indexes, and a finding if it was truncated.
Always: it keeps whole batches in order. Offsets may be missing up to `holes_to`, as far as
the log may have been compacted; above it a gap is damage.
"""

from barnabas.log.epochs import LeaderEpochs
from barnabas.log.producers.replay import replay_stored
from barnabas.log.producers.state import EndedTransaction, ProducerStates
from barnabas.log.recovery.findings import RecoveryFinding
from barnabas.log.segments.index import RELATIVE_OFFSET_MAX
from barnabas.log.segments.index_builder import IndexBuilder
from barnabas.log.segments.scan import checked_batches
from barnabas.log.segments.segment import Segment
from barnabas.log.sync_mark import SyncMark


def check_segment(
    segment: Segment,
    point: int,
    holes_to: int,
    interval: int,
    states: ProducerStates,
    epochs: LeaderEpochs,
    mark: SyncMark,
) -> RecoveryFinding | None:
    """`point`: the recovery point."""
    builder = IndexBuilder(segment.base_offset, interval)
    expected = segment.base_offset
    good, problem = 0, ""
    found: RecoveryFinding | None = None
    aborted: list[EndedTransaction] = []
    for position, header, bad in checked_batches(segment.file(), segment.size):
        problem = bad
        if header is not None:
            base = header.base_offset
            if base < expected or base > max(expected, holes_to):
                problem = f"batch starts at offset {base}, {expected} expected"
            elif header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
                problem = f"offset {header.last_offset} is too far from the segment's base"
        if problem or header is None:
            break
        builder.add(position, header)
        epochs.begin(header.leader_epoch, header.base_offset)
        ended = replay_stored(states, header, segment.file(), position)
        if ended is not None and not ended[1]:
            aborted.append(ended[0])
        expected = header.last_offset + 1
        good = position + header.size
    if problem:
        found = RecoveryFinding(
            segment.path,
            f"at position {good} of {segment.size}: {problem}",
            f"cut to {good} bytes, the log ends at {expected}",
        )
        segment.file().truncate(good)
        with mark.during_sync(confirms=not mark.is_set()):
            segment.file().sync()  # or the next power loss may bring back what was cut
        segment.size = good
    # Below the recovery point indexes are trusted without a check at the next start.
    segment.adopt_indexes(builder, sync=expected <= point)
    segment.adopt_aborted(aborted, sync=expected <= point)
    segment.next_offset = expected
    segment.close()
    return found
