"""Restores the producers as they were at an offset: from a snapshot, and the batches after it.

In: the snapshots and the segments of one log. Out: producer states.
Always: only the headers of batches are read, and the one record of a marker.
"""

from barnabas.log.producers.snapshots import ProducerSnapshots
from barnabas.log.producers.state import EndedTransaction, ProducerStates
from barnabas.log.recovery.findings import RecoveryFinding
from barnabas.log.segments.scan import headers
from barnabas.log.segments.segment import Segment
from barnabas.model.errors import Corrupt
from barnabas.model.ports import Buffer, File
from barnabas.wire.batch import CONTROL, BatchHeader


def load_producers(
    snapshots: ProducerSnapshots, segments: list[Segment], end: int, findings: list[RecoveryFinding]
) -> ProducerStates:
    """The snapshot at the end of the log, or the newest and a replay."""
    if not snapshots.offsets and len(segments) == 1 and not segments[0].size:
        return ProducerStates()
    states, offset = snapshots.load_newest(end, findings)
    replay(states, offset, end, segments, findings)
    return states


def load_exactly(
    snapshots: ProducerSnapshots, offset: int, findings: list[RecoveryFinding]
) -> ProducerStates | None:
    """From the snapshot at `offset` alone: compaction may have removed the batches."""
    if offset not in snapshots.offsets:
        return None
    states, found = snapshots.load_newest(offset, findings)
    return states if found == offset else None


def replay(
    states: ProducerStates,
    offset: int,
    end: int,
    segments: list[Segment],
    findings: list[RecoveryFinding],
) -> None:
    """Headers of batches in [offset, end).

    A damaged segment stays in the log, and what is whole in it can be read. Only producers that
    wrote nothing behind the damage are not known any more.
    """
    if offset >= end:
        return
    for number, segment in enumerate(segments, 1):
        if number < len(segments) and segments[number].base_offset <= offset:
            continue
        try:
            found = segment.locate(offset) if segment.size else None
            if found is None:
                continue
            file = segment.file()
            for position, header in headers(file, found[0], segment.size, 1 << 16):
                if header.base_offset >= end:
                    break
                replay_stored(states, header, file, position)
        except Corrupt as error:
            what = f"damaged, and no good snapshot follows it: {error.detail}"
            did = "kept; repeats of producers that wrote last before the damage are not recognized"
            findings.append(RecoveryFinding(segment.path, what, did))
        finally:
            segment.close()


def replay_stored(
    states: ProducerStates, header: BatchHeader, file: File, position: int
) -> tuple[EndedTransaction, bool] | None:
    """One batch of a file. A marker's transaction, and whether it was committed."""
    if header.producer_id < 0:
        return None
    if header.attributes & CONTROL:
        return replay_marker(states, header, file.read(position, header.size))
    states.replay(header)
    return None


def replay_marker(
    states: ProducerStates, header: BatchHeader, batch: Buffer
) -> tuple[EndedTransaction, bool] | None:
    """The transaction that a control batch ends, and whether it was committed."""
    from barnabas.wire.control_records import read_marker

    marker = read_marker(batch, header)
    if marker is None:
        return None
    ended = states.end_transaction(
        header.producer_id,
        header.producer_epoch,
        marker.coordinator_epoch,
        header.base_offset,
        header.max_timestamp,
    )
    return None if ended is None else (ended, marker.commit)


def remove_stray(snapshots: ProducerSnapshots, segments: list[Segment]) -> None:
    """Keep one per segment, and the newest."""
    bases = {segment.base_offset for segment in segments}
    for offset in snapshots.offsets[:-1]:
        if offset not in bases:
            snapshots.remove(offset)
