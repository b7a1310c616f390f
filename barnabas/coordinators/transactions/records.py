"""What a transactional id leaves in __transaction_state: Kafka's keys and values, byte for byte.

In: records to encode, or the key and value of one that was read. Out: bytes, or records.
Always: what this version does not know is skipped; what claims to be known and is not right is
Corrupt, never a guess.
Not here: what the records change (table.py).
"""

from collections.abc import Collection
from functools import lru_cache
from struct import Struct as Layout
from struct import pack
from typing import NamedTuple

from barnabas.coordinators.transactions.causes import Client, TransactionCause
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.coordinators.transactions.transaction import NO_ID, Transaction
from barnabas.model.errors import Corrupt, KafkaError
from barnabas.wire.codec import Int8, Int16, Int32, Int64, ProtocolMessage, Struct, message, tagged
from barnabas.wire.primitives import uvarint

KEY_VERSION = 0
VALUE_VERSION_MAX = 1
VALUE_1_SINCE = 1  # `transaction.version`
ID_BYTES_MAX = 0x7FFF
"""Of a transactional id in UTF-8: a key cannot hold a longer one."""

_VERSION = Layout(">h")
_KEY_HEAD = Layout(">hh")
_HEAD = Layout(">hqhib")
_TIMES = Layout(">qq")
_TAGGED_ID = Layout(">BBq")
_TAGGED_VERSION = Layout(">BBh")
# Times and tags of a producer that has had its id before, in the first and the second version.
_USUAL_END_1 = Layout(">qqBBBq")
_USUAL_END_2 = Layout(">qqBBBqBBh")
_NULL, _NO_TOPICS = b"\0", b"\1"
_STATES = {int(state): state for state in TransactionState}


@message(versions="0")
class TransactionLogKey(ProtocolMessage):
    """Which transactional id."""

    transactional_id: str


class PartitionsSchema(Struct):
    topic: str
    partition_ids: list[Int32]


@message(versions="0-1", flexible="1+")
class TransactionLogValue(ProtocolMessage):
    """Its state. v1: flexible, ids before and after, the client's transaction version."""

    producer_id: Int64
    previous_producer_id: Int64 = tagged(0, since=1, default=NO_ID, ignorable=True)
    next_producer_id: Int64 = tagged(1, since=1, default=NO_ID, ignorable=True)
    producer_epoch: Int16
    next_producer_epoch: Int16 = tagged(3, since=1, default=-1, ignorable=True)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = tagged(2, since=1, default=0, ignorable=True)


class TransactionRecord(NamedTuple):
    """A transactional id's state; without one, an id that has expired.

    `cause` and `owner` are kept in memory only: why it is aborted, and who initialised it.
    """

    transactional_id: str
    transaction: Transaction | None
    cause: TransactionCause | None = None
    owner: Client | None = None


def encode(record: TransactionRecord, transaction_version: int) -> tuple[bytes, bytes | None]:
    """The key and value in the log of a cluster with this `transaction.version`."""
    id_ = record.transactional_id.encode()
    key = _KEY_HEAD.pack(KEY_VERSION, len(id_)) + id_
    found = record.transaction
    if found is None:
        return key, None
    # A client may speak a later version than the cluster has: what it needs must not get lost.
    needs_tags = found.client_version > 0 or found.next_producer_id != NO_ID
    if needs_tags or transaction_version >= VALUE_1_SINCE:
        return key, _value_1(found)
    return key, _VERSION.pack(0) + _value_of(found).encode(0)


def _value_1(found: Transaction) -> bytes:
    """As TransactionLogValue in version 1, in a fraction of the time: each transaction writes
    it three times."""
    head = _HEAD.pack(1, found.producer_id, found.producer_epoch, found.timeout_ms, found.state)
    partitions = found.partitions
    if found.state is TransactionState.EMPTY:
        body = _NULL
    elif len(partitions) < 2 and all(len(indexes) == 1 for indexes in partitions.values()):
        body = _NO_TOPICS
        for topic, (index,) in partitions.items():
            body = _one_partition(topic, index)
    else:
        topics = [_topic(topic, indexes) for topic, indexes in partitions.items()]
        body = uvarint(len(topics) + 1) + b"".join(topics)
    previous, client = found.previous_producer_id, found.client_version
    times = found.updated_ms, found.started_ms
    if found.next_producer_id != NO_ID or previous == NO_ID:
        return head + body + _TIMES.pack(*times) + _tags(found)
    if client:
        return head + body + _USUAL_END_2.pack(*times, 2, 0, 8, previous, 2, 2, client)
    return head + body + _USUAL_END_1.pack(*times, 1, 0, 8, previous)


@lru_cache(maxsize=1_000)
def _one_partition(topic: str, index: int) -> bytes:
    """The partitions of a transaction that has one: small transactions often have."""
    return b"\2" + _topic(topic, (index,))


def _topic(topic: str, indexes: Collection[int]) -> bytes:
    name, count = topic.encode(), len(indexes)
    numbers = pack(f">{count}iB", *sorted(indexes), 0)
    return b"".join((uvarint(len(name) + 1), name, uvarint(count + 1), numbers))


def _tags(found: Transaction) -> bytes:
    tags = []
    if found.previous_producer_id != NO_ID:
        tags.append(_TAGGED_ID.pack(0, 8, found.previous_producer_id))
    if found.next_producer_id != NO_ID:
        tags.append(_TAGGED_ID.pack(1, 8, found.next_producer_id))
    if found.client_version:
        tags.append(_TAGGED_VERSION.pack(2, 2, found.client_version))
    return bytes((len(tags),)) + b"".join(tags)


def _value_of(found: Transaction) -> TransactionLogValue:
    partitions = None
    if found.state is not TransactionState.EMPTY:
        partitions = [
            PartitionsSchema(topic=topic, partition_ids=sorted(indexes))
            for topic, indexes in found.partitions.items()
        ]
    return TransactionLogValue(
        producer_id=found.producer_id,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        producer_epoch=found.producer_epoch,
        transaction_timeout_ms=found.timeout_ms,
        transaction_status=found.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=found.updated_ms,
        transaction_start_timestamp_ms=found.started_ms,
        client_transaction_version=found.client_version,
    )


def decode(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """None for a kind or a version of record that is not known here."""
    if key_version(key) != KEY_VERSION:
        return None
    try:
        id_ = TransactionLogKey.decode(key, KEY_VERSION, _VERSION.size).transactional_id
        if value is None:
            return TransactionRecord(id_, None)
        version = _version(value, "value")
        if not 0 <= version <= VALUE_VERSION_MAX:
            return None
        found = TransactionLogValue.decode(value, version, _VERSION.size)
    except Corrupt:
        raise
    except KafkaError as error:
        raise Corrupt(f"transaction record with key {key[:200]!r}: {error.detail}") from error
    return TransactionRecord(id_, _transaction_of(id_, found))


def _transaction_of(id_: str, found: TransactionLogValue) -> Transaction:
    state = _STATES.get(found.transaction_status)
    if state is None:
        raise Corrupt(
            f"transactional id {id_[:200]!r} is in state {found.transaction_status};"
            f" the log knows states 0 to {max(_STATES)}"
        )
    if found.producer_id < 0 or found.producer_epoch < 0:
        raise Corrupt(
            f"transactional id {id_[:200]!r} has producer id {found.producer_id}"
            f" and epoch {found.producer_epoch}; both must be 0 or more"
        )
    partitions: dict[str, frozenset[int]] = {}
    if state is not TransactionState.EMPTY:
        if found.transaction_partitions is None:
            raise Corrupt(f"transactional id {id_[:200]!r} is {state.title} without partitions")
        partitions = _partitions_of(id_, found.transaction_partitions)
    return Transaction(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        state=state,
        partitions=partitions,
        updated_ms=found.transaction_last_update_timestamp_ms,
        started_ms=found.transaction_start_timestamp_ms,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        client_version=found.client_transaction_version,
    )


def _partitions_of(id_: str, topics: list[PartitionsSchema]) -> dict[str, frozenset[int]]:
    partitions: dict[str, frozenset[int]] = {}
    for topic in topics:
        if any(index < 0 for index in topic.partition_ids):
            raise Corrupt(f"transactional id {id_[:200]!r} has a negative partition")
        indexes = frozenset(topic.partition_ids)
        partitions[topic.topic] = partitions.get(topic.topic, frozenset()) | indexes
    return partitions


def key_version(key: bytes) -> int:
    return _version(key, "key")


def _version(data: bytes, what: str) -> int:
    if len(data) < _VERSION.size:
        raise Corrupt(f"the {what} of a transaction record has {len(data)} bytes, no version")
    (version,) = _VERSION.unpack_from(data)
    return int(version)
