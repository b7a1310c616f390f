"""What a group of transactions leaves in __transaction_state: a key and a value of our own.

Kafka skips keys of a version that it does not know, so it can still read the directory.
Always: what claims to be such a record and is not right is Corrupt, never a guess.
"""

from struct import Struct as Layout

from barnabas.coordinators.transactions.group_commit import CommittedBatch, TransactionGroupRecord
from barnabas.coordinators.transactions.records import (
    TransactionRecord,
    decode,
    encode,
    key_version,
)
from barnabas.model.errors import Corrupt, KafkaError
from barnabas.wire.codec import Int64, ProtocolMessage, message

GROUP_KEY_VERSION = 20_000
VALUE_VERSION = 0

LoggedRecord = TransactionRecord | TransactionGroupRecord
"""What the log of a shard has."""

_VERSION = Layout(">h")


@message(versions="0")
class TransactionGroupKey(ProtocolMessage):
    """Which group."""

    group: str


@message(versions="0", flexible="0+")
class TransactionGroupValue(ProtocolMessage):
    """Its last batch."""

    batch: Int64
    identity: str
    note: str
    updated_ms: Int64


def encode_group(record: TransactionGroupRecord) -> tuple[bytes, bytes | None]:
    key = _VERSION.pack(GROUP_KEY_VERSION) + TransactionGroupKey(group=record.group).encode(0)
    batch = record.batch
    if batch is None:
        return key, None
    value = TransactionGroupValue(
        batch=batch.number,
        identity=batch.identity,
        note=batch.note,
        updated_ms=batch.updated_ms,
    )
    return key, _VERSION.pack(VALUE_VERSION) + value.encode(0)


def decode_group(key: bytes, value: bytes | None) -> TransactionGroupRecord | None:
    """None for a version of the value that is not known here."""
    try:
        group = TransactionGroupKey.decode(key, 0, _VERSION.size).group
        if value is None:
            return TransactionGroupRecord(group, None)
        if len(value) < _VERSION.size:
            raise Corrupt(f"the record of transaction group {group[:200]!r} has no version")
        if _VERSION.unpack_from(value) != (VALUE_VERSION,):
            return None
        found = TransactionGroupValue.decode(value, 0, _VERSION.size)
    except Corrupt:
        raise
    except KafkaError as error:
        raise Corrupt(f"transaction group with key {key[:200]!r}: {error.detail}") from error
    if found.batch < 0:
        raise Corrupt(f"transaction group {group[:200]!r} has batch {found.batch}, below 0")
    return TransactionGroupRecord(
        group, CommittedBatch(found.batch, found.identity, found.note, found.updated_ms)
    )


def encode_logged(record: LoggedRecord, transaction_version: int) -> tuple[bytes, bytes | None]:
    if isinstance(record, TransactionGroupRecord):
        return encode_group(record)
    return encode(record, transaction_version)


def decode_logged(key: bytes, value: bytes | None) -> LoggedRecord | None:
    return decode_group(key, value) if key_version(key) == GROUP_KEY_VERSION else decode(key, value)
