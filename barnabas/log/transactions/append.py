"""Transactional batches and markers in a log: whether they are accepted, and what they change.

In: the producer fields of batches that are about to be, or have been, appended; guards; markers.
Out: the batch that is repeated, nothing, or an error; aborted transactions in the segment's index.
Always: a transaction begins here only with a guard that nothing has taken away since the
coordinator said that the partition is in the transaction. Repeats are recognized before anything
is refused, and a stale epoch before a missing guard: its producer may go on after an abort.
Not here: plain batches (log/append.py), asking the coordinator (the broker).
"""

from typing import TYPE_CHECKING

from barnabas.log.producers.state import NO_SEQUENCE, EndedTransaction, ProducerState, Remembered
from barnabas.log.transactions.aborted_index import AbortedTransaction
from barnabas.log.transactions.verification import VerificationGuard, VerificationGuards
from barnabas.model.errors import Code, Failed, Fenced, InvalidRequest
from barnabas.wire.batch import CONTROL
from barnabas.wire.control_records import EndMarker, marker_batch

if TYPE_CHECKING:
    from barnabas.log.append import Appended
    from barnabas.log.log import Log

STRICT_SINCE = 2
"""The transaction version whose markers have an epoch that no batch of the transaction has."""
UNDECIDED_MAX = 1_000  # ended transactions that nobody has asked about


def require_guard(
    log: "Log", producer_id: int, epoch: int, sequence: int, *, has_version_2: bool
) -> VerificationGuard | None:
    """For a transactional batch: None if its transaction is open here, and it may be appended;
    else the guard to append with, once the coordinator has agreed."""
    state = log.producers.entries.get(producer_id)
    if state is not None:
        _check_epoch(state, epoch)
        if state.transaction_start >= 0 and state.epoch == epoch:
            return None
    if log.guards is None:
        log.guards = VerificationGuards()
    return log.guards.require(producer_id, epoch, sequence, has_version_2=has_version_2)


def check_batch(
    log: "Log",
    attributes: int,
    producer_id: int,
    epoch: int,
    base_sequence: int,
    record_count: int,
    guard: VerificationGuard | None,
) -> Remembered | None:
    """The batch that this transactional one repeats, or None if it may be appended."""
    if attributes & CONTROL:  # `append_marker` has checked it
        return None
    states = log.producers
    state = states.entries.get(producer_id)
    if state is not None and base_sequence >= 0:
        repeat = state.repeated(epoch, base_sequence, record_count)
        if repeat is not None:
            return repeat
    if state is not None:
        _check_epoch(state, epoch)
    if state is None or state.transaction_start < 0 or state.epoch != epoch:
        _check_guard(log, producer_id, base_sequence, state, guard)
    if base_sequence != NO_SEQUENCE:
        states.check(producer_id, epoch, base_sequence, record_count)
    return None


def check_plain(log: "Log", producer_id: int) -> None:
    """A producer with an open transaction writes nothing beside it."""
    state = log.producers.entries.get(producer_id)
    if state is not None and state.transaction_start >= 0:
        raise InvalidRequest(
            Code.INVALID_TXN_STATE,
            f"producer {producer_id} has a transaction open on this partition since offset"
            f" {state.transaction_start}: all of its batches must be transactional until that ends",
        )


def _check_epoch(state: ProducerState, epoch: int) -> None:
    if epoch < state.epoch:
        raise Fenced(
            Code.INVALID_PRODUCER_EPOCH,
            f"producer {state.producer_id}: got epoch {epoch}, the current epoch is {state.epoch}",
        )


def _check_guard(
    log: "Log",
    producer_id: int,
    base_sequence: int,
    state: ProducerState | None,
    guard: VerificationGuard | None,
) -> None:
    if guard is None or log.guards is None or not log.guards.is_good(producer_id, guard):
        raise InvalidRequest(
            Code.INVALID_TXN_STATE,
            f"producer {producer_id} has no open transaction on this partition",
        )
    if base_sequence > guard.lowest_sequence:
        raise InvalidRequest(
            Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id}: got sequence {base_sequence}, but {guard.lowest_sequence}"
            " is still waiting for the transaction coordinator",
        )
    if guard.has_version_2 and state is None and base_sequence > 0:
        raise InvalidRequest(
            Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id} is new on this partition and must start with sequence 0,"
            f" {base_sequence} came",
        )


def batch_appended(
    log: "Log",
    producer_id: int,
    epoch: int,
    base_sequence: int,
    base_offset: int,
    last_offset: int,
    timestamp: int,
) -> None:
    """A transactional batch is in the log."""
    if base_sequence >= 0:
        log.producers.record(producer_id, epoch, base_sequence, base_offset, last_offset, timestamp)
    log.producers.begin_transaction(producer_id, epoch, base_offset, timestamp)
    if log.guards is not None:
        log.guards.appended(producer_id)


def append_marker(
    log: "Log",
    producer_id: int,
    epoch: int,
    marker: EndMarker,
    version: int,
    leader_epoch: int,
    wall_ms: int,
) -> "Appended":
    """End a producer's transaction in this log, as its leader.

    `version`: the transaction version that the coordinator used. A marker that was written before
    is written again: its answer may have got lost.
    """
    _check_marker(log.producers.entries.get(producer_id), epoch, marker, version)
    batch = marker_batch(producer_id, epoch, marker, wall_ms)
    appended = log.append(memoryview(batch), leader_epoch, wall_ms, ours=True)
    ended = log.producers.end_transaction(
        producer_id, epoch, marker.coordinator_epoch, appended.base_offset, wall_ms
    )
    if log.guards is not None:
        log.guards.ended(producer_id, epoch)
    transaction_ended(log, ended, commit=marker.commit)
    return appended


def _check_marker(state: ProducerState | None, epoch: int, marker: EndMarker, version: int) -> None:
    if state is None:
        return
    if version >= STRICT_SINCE:
        is_repeat = epoch == state.epoch and state.transaction_start < 0
        stale = epoch <= state.epoch and not is_repeat
    else:
        stale = epoch < state.epoch
    if stale:
        raise Fenced(
            Code.INVALID_PRODUCER_EPOCH,
            f"marker for epoch {epoch} of producer {state.producer_id}: {state.epoch} is in force",
        )
    if marker.coordinator_epoch < state.coordinator_epoch:
        raise Fenced(
            Code.TRANSACTION_COORDINATOR_FENCED,
            f"marker for producer {state.producer_id} by coordinator epoch"
            f" {marker.coordinator_epoch}: {state.coordinator_epoch} is in force",
        )


def transaction_ended(log: "Log", ended: EndedTransaction | None, *, commit: bool) -> None:
    """A marker is in the log, and in the active segment; an abort goes into its index."""
    if ended is None:
        return
    transactions = log.producers.transactions
    if transactions is not None and transactions.undecided > UNDECIDED_MAX:
        transactions.forget_decided(log.high_watermark)  # a follower is not asked for stable ones
    if commit:
        return
    is_first = not len(log.active.aborted)
    log.has_aborted = True
    try:
        log.active.aborted.append(AbortedTransaction._make(ended))
    except OSError as error:
        # Readers would take the aborted records for committed ones. Recovery finds them again.
        log.write_failure = f"{log.active.aborted_path}: {error}"
        log.active.entries_left = 0
        raise Failed(Code.KAFKA_STORAGE_ERROR, log.write_failure) from error
    if is_first:
        log.durability.directory_changed()


def aborted_in(log: "Log", start: int, end: int) -> list[AbortedTransaction]:
    """The aborted transactions with records from `start` to `end`, which is excluded."""
    found: dict[AbortedTransaction, None] = {}  # compaction leaves some in two files for a moment
    for segment in log.segments[log.reader.segment_at(start) :]:
        more, is_complete = segment.aborted.find(start, end)
        found.update(dict.fromkeys(more))
        if is_complete:
            break
    return list(found)
