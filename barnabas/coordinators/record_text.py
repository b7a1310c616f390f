"""Records of __consumer_offsets and __transaction_state as plain values, for people.

In: the topic, a key and a value. Out: a dictionary of names and values that JSON can hold, or None
for a record of another kind. Always: broken bytes give a dictionary that says so.
"""

from typing import Any
from uuid import UUID

from msgspec import Struct

from barnabas.coordinators.groups import records as groups
from barnabas.coordinators.groups.consumer.records import ConsumerRecord
from barnabas.coordinators.transactions import records as transactions
from barnabas.model.errors import KafkaError

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


def described(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """What the record says; `deleted` if it is a tombstone."""
    if topic not in INTERNAL or key is None:
        return None
    try:
        if topic == OFFSETS_TOPIC:
            return _group(groups.decode(key, value))
        return _transaction(transactions.decode(key, value))
    except (KafkaError, ValueError) as error:
        return {"kind": "unreadable", "reason": str(error)}


def _group(record: groups.Record | None) -> dict[str, Any] | None:
    if record is None:
        return None
    if isinstance(record, groups.OffsetRecord):
        said = {"kind": "offset", "group": record.group, "topic": record.topic}
        return {**said, "partition": record.partition, **_value(record.value)}
    if isinstance(record, ConsumerRecord):
        kind = "deleted" if record.value is None else type(record.value).__name__
        said = {"kind": _KINDS.get(kind, kind), "group": record.group}
        return {**said, **({"name": record.name} if record.name else {}), **_value(record.value)}
    return {"kind": "group", "group": record.group, **_value(record.value)}


_KINDS = {
    "EpochValue": "consumer group",
    "PartitionsValue": "partitions",
    "MemberValue": "member",
    "TargetEpochValue": "target epoch",
    "TargetValue": "target assignment",
    "CurrentValue": "current assignment",
    "RegexValue": "pattern",
}


def _transaction(record: transactions.TransactionRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    said: dict[str, Any] = {"kind": "transaction", "transactional_id": record.transactional_id}
    found = record.transaction
    if found is None:
        return {**said, "deleted": True}
    return {
        **said,
        "state": found.state.name,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "partitions": [
            f"{topic}-{index}"
            for topic, indexes in found.partitions.items()
            for index in sorted(indexes)
        ],
        "updated_ms": found.updated_ms,
    }


def _value(value: object) -> dict[str, Any]:
    if value is None:
        return {"deleted": True}
    return {name: _plain(getattr(value, name)) for name in value.wire_fields}  # type: ignore[attr-defined]


def _plain(value: object) -> Any:
    if isinstance(value, bytes | memoryview):
        return f"{len(value)} bytes"
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Struct):
        return _value(value)
    return value
