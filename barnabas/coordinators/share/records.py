"""What a share partition leaves in __share_group_state: Kafka's keys and values, byte for byte.

In: records to encode, or the key and value of one that was read. Out: bytes, or records.
Always: what this version does not know is skipped; what claims to be known and is not right is
Corrupt, never a guess.
Not here: what the records change (stored_state.py).
"""

from struct import Struct as Layout
from struct import error as TooShort
from typing import NamedTuple
from uuid import UUID

from barnabas.coordinators.share.keys import StateKey
from barnabas.coordinators.share.state_batches import StateBatch
from barnabas.model.errors import Corrupt, KafkaError
from barnabas.wire.codec import Int8, Int16, Int32, Int64, ProtocolMessage, Struct, message, tagged
from barnabas.wire.primitives import uvarint

SNAPSHOT = 0
UPDATE = 1
NO_COUNT = -1
GROUP_BYTES_MAX = 0x7FFF

_TYPE_AND_LENGTH = Layout(">hh")
_PARTITION = Layout(">i")
_SNAPSHOT = Layout(">hiiiqqq")
_UPDATE = Layout(">hiiq")
_BATCH = Layout(">qqbhB")
_COUNT = Layout(">BBBi")


class LoggedBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@message(versions="0", flexible="0+")
class ShareSnapshotValue(ProtocolMessage):
    """The whole state of a share partition."""

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[LoggedBatch]
    delivery_complete_count: Int32 = tagged(0, since=0, default=NO_COUNT, ignorable=True)


@message(versions="0", flexible="0+")
class ShareUpdateValue(ProtocolMessage):
    """What has changed since the last snapshot."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    state_batches: list[LoggedBatch]
    delivery_complete_count: Int32 = tagged(0, since=0, default=NO_COUNT, ignorable=True)


class SnapshotRecord(NamedTuple):
    """Replaces the state of a share partition."""

    key: StateKey
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    created_ms: int
    written_ms: int
    batches: tuple[StateBatch, ...]
    complete_count: int = NO_COUNT


class UpdateRecord(NamedTuple):
    """Changes the state of a share partition; a start offset of -1: unchanged."""

    key: StateKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    complete_count: int = NO_COUNT


class StateTombstone(NamedTuple):
    """The state of the share partition is deleted."""

    key: StateKey


ShareRecord = SnapshotRecord | UpdateRecord | StateTombstone


def encode(record: ShareRecord) -> tuple[bytes, bytes | None]:
    group, topic_id, partition = record.key
    name = group.encode()
    kind = UPDATE if isinstance(record, UpdateRecord) else SNAPSHOT
    key = b"".join(
        (_TYPE_AND_LENGTH.pack(kind, len(name)), name, topic_id.bytes, _PARTITION.pack(partition))
    )
    if isinstance(record, StateTombstone):
        return key, None
    if isinstance(record, SnapshotRecord):
        head = _SNAPSHOT.pack(
            0,
            record.snapshot_epoch,
            record.state_epoch,
            record.leader_epoch,
            record.start_offset,
            record.created_ms,
            record.written_ms,
        )
    else:
        head = _UPDATE.pack(0, record.snapshot_epoch, record.leader_epoch, record.start_offset)
    batches = record.batches
    count = record.complete_count
    tail = b"\0" if count == NO_COUNT else _COUNT.pack(1, 0, 4, count)
    return key, b"".join(
        (head, uvarint(len(batches) + 1), *[_BATCH.pack(*batch, 0) for batch in batches], tail)
    )


def decode(key: bytes, value: bytes | None) -> ShareRecord | None:
    """None for a kind or a version of record that is not known here."""
    try:
        kind, length = _TYPE_AND_LENGTH.unpack_from(key)
        if kind not in (SNAPSHOT, UPDATE):
            return None
        end = 4 + length
        if length < 0 or len(key) != end + 20:
            raise Corrupt(f"share state record with a key of {len(key)} bytes: {key[:100]!r}")
        (partition,) = _PARTITION.unpack_from(key, end + 16)
        state_key = StateKey(key[4:end].decode(), UUID(bytes=key[end : end + 16]), partition)
        if value is None:
            return StateTombstone(state_key) if kind == SNAPSHOT else None
        if int.from_bytes(value[:2], "big") != 0:
            return None
        if kind == UPDATE:
            update = ShareUpdateValue.decode(value, 0, 2)
            return UpdateRecord(
                state_key,
                update.snapshot_epoch,
                update.leader_epoch,
                update.start_offset,
                _batches(state_key, update.state_batches),
                update.delivery_complete_count,
            )
        found = ShareSnapshotValue.decode(value, 0, 2)
    except Corrupt:
        raise
    except (KafkaError, TooShort, UnicodeDecodeError) as error:
        raise Corrupt(f"share state record with key {key[:100]!r}: {error}") from error
    return SnapshotRecord(
        state_key,
        found.snapshot_epoch,
        found.state_epoch,
        found.leader_epoch,
        found.start_offset,
        found.create_timestamp,
        found.write_timestamp,
        _batches(state_key, found.state_batches),
        found.delivery_complete_count,
    )


def _batches(key: StateKey, batches: list[LoggedBatch]) -> tuple[StateBatch, ...]:
    for each in batches:
        if each.first_offset < 0 or each.last_offset < each.first_offset:
            raise Corrupt(
                f"share partition {key} has the range {each.first_offset} to {each.last_offset}"
            )
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in batches
    )
