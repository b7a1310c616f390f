"""Says why a batch from a client is refused.

In: a batch that failed one of the append checks. Out: the error, always.
`Log.append` tests the same conditions in one pass; this spells them out.
Not here: producer sequences (producers.py).
"""

from barnabas.log.config import LogConfig
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError
from barnabas.wire.batch import (
    CODEC_MASK,
    CONTROL,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    check_crc,
    read_header,
)

CODEC_MAX = 4  # none, gzip, snappy, lz4, zstd
KNOWN_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL


def refusal(batch: memoryview, config: LogConfig, wall_ms: int) -> KafkaError:
    """The first rule that the batch breaks, in Kafka's order."""
    try:
        header = read_header(batch)
    except Corrupt as error:
        return error
    return (
        _framing(batch, header)
        or _size(header, config)
        or _checksum(batch, header)
        or _contents(header)
        or _timestamps(header, config, wall_ms)
        or Corrupt(f"batch refused: {header}")
    )


def _framing(batch: memoryview, header: BatchHeader) -> KafkaError | None:
    extra = len(batch) - header.size
    if extra:
        return InvalidRequest(
            Code.INVALID_RECORD,
            f"{extra} bytes follow the batch of {header.size}; a produce request carries "
            "exactly one batch per partition",
        )
    if header.base_offset != 0:
        return InvalidRequest(
            Code.INVALID_RECORD, f"base offset is {header.base_offset}, a producer must send 0"
        )
    return None


def _size(header: BatchHeader, config: LogConfig) -> KafkaError | None:
    size = header.length + LENGTH_OVERHEAD
    if size > config.max_message_bytes:
        return InvalidRequest(
            Code.MESSAGE_TOO_LARGE,
            f"batch of {size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        return InvalidRequest(
            Code.RECORD_LIST_TOO_LARGE,
            f"batch of {size} bytes, segment.bytes is {config.segment_bytes}",
        )
    return None


def _checksum(batch: memoryview, header: BatchHeader) -> KafkaError | None:
    try:
        check_crc(batch, header)
    except Corrupt as error:
        return error
    return None


def _contents(header: BatchHeader) -> KafkaError | None:
    count, delta, attributes = header.record_count, header.last_offset_delta, header.attributes
    if count < 1 or count != delta + 1:
        return InvalidRequest(
            Code.INVALID_RECORD, f"record count is {count}, last offset delta is {delta}"
        )
    if attributes & CONTROL:
        return InvalidRequest(Code.INVALID_RECORD, "clients may not write control batches")
    if attributes & LOG_APPEND_TIME:
        return InvalidRequest(
            Code.INVALID_TIMESTAMP, "a producer may not set the timestamp type to LogAppendTime"
        )
    if attributes & ~KNOWN_ATTRIBUTES:
        return InvalidRequest(
            Code.INVALID_RECORD, f"batch attributes {attributes & 0xFFFF:#06x} have unknown bits"
        )
    if attributes & CODEC_MASK > CODEC_MAX:
        return Corrupt(f"compression codec {attributes & CODEC_MASK} is unknown")
    if attributes & TRANSACTIONAL:
        return InvalidRequest(
            Code.INVALID_TXN_STATE,
            f"producer {header.producer_id} has no open transaction on this partition",
        )
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        return InvalidRequest(
            Code.INVALID_RECORD,
            f"producer {header.producer_id} epoch {header.producer_epoch} sent "
            f"sequence {header.base_sequence}; neither may be negative",
        )
    return None


def _timestamps(header: BatchHeader, config: LogConfig, wall_ms: int) -> KafkaError | None:
    base, largest = header.base_timestamp, header.max_timestamp
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    detail = ""
    if largest < base:
        detail = f"max timestamp {largest} is below base timestamp {base}"
    elif largest - wall_ms > after:
        detail = f"max timestamp {largest} is above {wall_ms + after}, {after} ms from now"
    elif base >= 0 and wall_ms - base > before:
        detail = f"base timestamp {base} is below {wall_ms - before}, {before} ms ago"
    elif base < -1:
        detail = f"base timestamp {base} is negative"
    return InvalidRequest(Code.INVALID_TIMESTAMP, detail) if detail else None


def check_keys(batch: memoryview) -> None:
    """INVALID_RECORD unless every record has a key: without one, it would be compacted away."""
    from barnabas.log.key_loops import first_keyless
    from barnabas.wire.records import records_of

    header = read_header(batch)
    body = records_of(batch, header)
    found = first_keyless(body, 0, len(body), header.record_count)
    if found >= 0:
        raise InvalidRequest(
            Code.INVALID_RECORD,
            f"record {found} has no key, but the topic is compacted: give it one, or take "
            "compact out of cleanup.policy",
        )
