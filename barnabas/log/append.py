"""Appends a client's batch to a log, as the leader of its partition.

In: a batch as the client sent it, wall time. Out: its offsets, or an error that changed nothing.
Always: whole batches only; offsets without a gap; nothing here syncs.
Not here: the words of a refusal (batch_validation.py), the next segment (roll.py), batches that
have their offsets already (replica_append.py), the files of a segment (log/segments/segment.py).
"""

from struct import Struct
from typing import TYPE_CHECKING

import msgspec

from barnabas.log.batch_validation import check_records, refusal
from barnabas.log.roll import segment_for
from barnabas.log.segments.index import RELATIVE_OFFSET_MAX
from barnabas.model.errors import Code, Failed
from barnabas.wire.batch import (
    ATTRIBUTES_POSITION,
    CONTROL,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
)
from barnabas.wire.checksum import crc32c

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.log.transactions.verification import VerificationGuard

_MAX_TIMESTAMP_POSITION = 35
_PLACE = Struct(">qii")  # base offset, length, leader epoch: the fields the checksum leaves out
_unpack_header = HEADER.unpack_from
_pack_place = _PLACE.pack_into
_pack_crc = Struct(">I").pack_into
_pack_attributes = Struct(">h").pack_into
_pack_timestamp = Struct(">q").pack_into


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The offsets of a batch; `append_time_ms` is -1 unless the topic stamps its records."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    duplicate: bool


def append_batch(
    log: "Log",
    batch: memoryview,
    leader_epoch: int,
    wall_ms: int,
    *,
    ours: bool = False,
    guard: "VerificationGuard | None" = None,
) -> Appended:
    """Check one batch, write its offset and leader epoch into the header in place, and append it.

    `ours`: this broker has just made the batch: it is whole, and its records have keys.
    `guard`: of a transactional batch, if its transaction is not open here yet.
    """
    size = len(batch)
    config = log.config
    if size < HEADER_SIZE:
        raise refusal(batch, config, wall_ms)
    (
        given_offset,
        length,
        _,
        magic,
        crc,
        attributes,
        last_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = _unpack_header(batch)
    if (
        size > config.max_message_bytes
        or size > config.segment_bytes
        or (
            not ours
            and (
                length + LENGTH_OVERHEAD != size
                or magic != MAGIC
                or given_offset
                or (
                    not 0 <= attributes <= 4  # a codec and nothing else
                    and (producer_id < 0 or not 0 <= attributes - TRANSACTIONAL <= 4)
                )
                or record_count < 1
                or record_count != last_delta + 1
                or (producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0))
                or crc32c(batch[ATTRIBUTES_POSITION:]) != crc
            )
        )
    ):
        raise refusal(batch, config, wall_ms)
    append_time = -1
    if config.timestamp_type == "create":
        if (
            max_timestamp < base_timestamp
            or base_timestamp < NO_TIMESTAMP
            or max_timestamp - wall_ms > config.timestamp_after_max_ms
            or (wall_ms - base_timestamp > config.timestamp_before_max_ms and base_timestamp >= 0)
        ):
            raise refusal(batch, config, wall_ms)
    else:
        append_time = max_timestamp = wall_ms
    if config.compacted and not ours:
        check_records(batch, config, wall_ms)
    if producer_id >= 0:
        if attributes < TRANSACTIONAL:
            repeat = log.producers.check(producer_id, producer_epoch, base_sequence, record_count)
            if log.producers.transactions is not None and repeat is None:
                from barnabas.log.transactions.append import check_plain

                check_plain(log, producer_id)
        else:
            from barnabas.log.transactions.append import check_batch

            repeat = check_batch(
                log,
                attributes,
                producer_id,
                producer_epoch,
                base_sequence,
                record_count,
                guard,
            )
        if repeat is not None:
            time = repeat.timestamp if append_time >= 0 else -1
            return Appended(repeat.base_offset, repeat.last_offset, time, True)

    base_offset = log.end_offset
    last_offset = base_offset + last_delta
    segment = log.active
    first_timestamp = segment.first_timestamp
    try:
        if (
            segment.entries_left < 1
            or segment.size + size > config.segment_bytes
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or (
                max_timestamp - first_timestamp
                if first_timestamp >= 0
                else wall_ms - segment.created_ms
            )
            > config.segment_ms - segment.jitter_ms
        ):
            segment = segment_for(log, size, last_offset, max_timestamp, wall_ms)
    except OSError as error:  # nothing of the batch has been written
        raise Failed(Code.KAFKA_STORAGE_ERROR, f"{log.active.path}: {error}") from error
    try:
        _pack_place(batch, 0, base_offset, length, leader_epoch)
        if append_time >= 0:
            _pack_attributes(batch, ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME)
            _pack_timestamp(batch, _MAX_TIMESTAMP_POSITION, wall_ms)
            _pack_crc(batch, CRC_POSITION, crc32c(batch[ATTRIBUTES_POSITION:]))
        segment.append(batch, size, last_offset, max_timestamp, config.index_interval_bytes)
    except OSError as error:
        raise write_failed(log, error) from error
    if leader_epoch != log.epochs.latest:
        log.epochs.begin(leader_epoch, base_offset)
    if producer_id >= 0:
        if attributes < TRANSACTIONAL:
            log.producers.record(
                producer_id,
                producer_epoch,
                base_sequence,
                base_offset,
                last_offset,
                max_timestamp,
            )
        elif not attributes & CONTROL:  # `append_marker` goes on with a marker
            from barnabas.log.transactions.append import batch_appended

            batch_appended(
                log,
                producer_id,
                producer_epoch,
                base_sequence,
                base_offset,
                last_offset,
                max_timestamp,
            )
    log.end_offset = last_offset + 1
    log.size += size
    return Appended(base_offset, last_offset, append_time, False)


def write_failed(log: "Log", error: OSError) -> Failed:
    """Remove what a failed write left of a batch; the error for the client."""
    segment = log.active
    try:
        segment.cut_to_size()
    except OSError as second:
        log.write_failure = f"{segment.path}: cannot undo a failed write: {second}"
        segment.entries_left = 0  # so the next append calls `segment_for`, which refuses it
    return Failed(Code.KAFKA_STORAGE_ERROR, f"{segment.path}: {error}")
