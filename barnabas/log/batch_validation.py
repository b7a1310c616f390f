"""Says why a batch from a client is refused.

In: a batch that failed one of the append checks. Out: the error, always.
`Log.append` tests the same conditions in one pass; this spells them out.
Not here: producer sequences (log/producers/state.py).
"""

from barnabas.log.config import INT64_MAX, LogConfig
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError, RecordsRefused
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
RECORD_ERRORS_MAX = 10_000  # of one batch; a small compressed batch may hold millions of records
NO_KEY = (
    "it has no key, and the topic is compacted; give the record a key, or remove compact from "
    "the topic's cleanup.policy"
)
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
        or _timestamps(batch, header, config, wall_ms)
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
    if attributes & TRANSACTIONAL and header.producer_id < 0:
        return InvalidRequest(
            Code.INVALID_RECORD, "a transactional batch must have the id of its producer"
        )
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        return InvalidRequest(
            Code.INVALID_RECORD,
            f"producer {header.producer_id} epoch {header.producer_epoch} sent "
            f"sequence {header.base_sequence}; neither may be negative",
        )
    return None


def _timestamps(
    batch: memoryview, header: BatchHeader, config: LogConfig, wall_ms: int
) -> KafkaError | None:
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
    if not detail:
        return None
    try:
        by_record = _records(batch, header, config, wall_ms)
    except Corrupt as error:
        return error
    return by_record or InvalidRequest(Code.INVALID_TIMESTAMP, detail)


def check_records(batch: memoryview, config: LogConfig, wall_ms: int) -> None:
    """For a compacted log: a record without a key would be compacted away."""
    error = _records(batch, read_header(batch), config, wall_ms)
    if error is not None:
        raise error


def _records(
    batch: memoryview, header: BatchHeader, config: LogConfig, wall_ms: int
) -> RecordsRefused | None:
    """The records that break a rule, as Kafka finds them: the key comes before the timestamp, and
    one wrong timestamp makes it INVALID_TIMESTAMP for all."""
    from barnabas.log.compaction.key_loops import invalid_records
    from barnabas.wire.records import records_of

    time_min, time_max = -INT64_MAX, INT64_MAX
    if config.timestamp_type == "create":
        time_min = wall_ms - config.timestamp_before_max_ms
        time_max = min(wall_ms + config.timestamp_after_max_ms, INT64_MAX)
    body = records_of(batch, header)
    invalid = invalid_records(
        body,
        0,
        len(body),
        header.record_count,
        config.compacted,
        header.base_timestamp,
        time_min,
        time_max,
        RECORD_ERRORS_MAX,
    )
    if not invalid:
        return None
    records = [
        (number, f"timestamp {time} is not between {time_min} and {time_max}" if keyed else NO_KEY)
        for number, keyed, time in invalid
    ]
    of_time = next((place for place, (_, keyed, _) in enumerate(invalid) if keyed), None)
    number, why = records[of_time or 0]
    others = len(records) - 1
    detail = f"record {number} of the batch: {why}"
    if others:
        more = f"{others} or more" if len(records) == RECORD_ERRORS_MAX else f"{others}"
        detail += f" ({more} other invalid record{'s' if others > 1 else ''})"
    code = Code.INVALID_RECORD if of_time is None else Code.INVALID_TIMESTAMP
    return RecordsRefused(code, detail, records)
