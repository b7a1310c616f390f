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
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader


def load_producers(
    snapshots: ProducerSnapshots,
    segments: list[Segment],
    end: int,
    findings: list[RecoveryFinding],
    compacted_to: int,
) -> ProducerStates:
    """The snapshot at the end of the log, or the newest and a replay."""
    if not snapshots.offsets and len(segments) == 1 and not segments[0].size:
        return ProducerStates()
    states, offset = snapshots.load_newest(end, findings)
    if offset < end:
        replay(states, offset, end, segments, findings)
        drop_compacted(states, segments, compacted_to)
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


def drop_compacted(states: ProducerStates, segments: list[Segment], compacted_to: int) -> None:
    """Forget open transactions of which compaction has left no batch.

    A snapshot may be older than a marker that compaction has removed since: a replay from there
    does not meet the marker, and would hold readers back for ever. What is open begins above
    `compacted_to`, so only what seems to begin below it is looked for in the log.
    """
    doubtful = {
        state.producer_id: state.transaction_start
        for state in states.entries.values()
        if 0 <= state.transaction_start < compacted_to
    }
    if not doubtful:
        return
    begins = dict.fromkeys(doubtful, -1)
    lowest = min(doubtful.values())
    for number, segment in enumerate(segments, 1):
        if number < len(segments) and segments[number].base_offset <= lowest:
            continue
        try:
            for _, header in headers(segment.file(), 0, segment.size, 1 << 16):
                producer_id, offset = header.producer_id, header.base_offset
                if header.attributes & (TRANSACTIONAL | CONTROL) != TRANSACTIONAL:
                    continue
                if begins.get(producer_id) == -1 and offset >= doubtful[producer_id]:
                    begins[producer_id] = offset
        except Corrupt:
            return  # its batches may be in what cannot be read
        finally:
            segment.close()
    for producer_id, offset in begins.items():
        states.move_transaction(producer_id, offset)


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

    if not header.record_count:
        # Kafka's compaction leaves it: nothing of the transaction is left, but its epoch counts.
        states.see_epoch(header.producer_id, header.producer_epoch, header.max_timestamp)
        return None
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
