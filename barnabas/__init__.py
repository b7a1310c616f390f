"""Barnabas: an event log that any Kafka client can use.

The names of the client are here: `from barnabas import Admin`; the same, blocking, in
`barnabas.sync`. Each is imported when it is first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.client.accumulator import BufferFull, Delivery, RecordMetadata
    from barnabas.client.admin import Admin
    from barnabas.client.aio.producer import Producer
    from barnabas.model.errors import Corrupt, Failed, Fenced, InvalidRequest, KafkaError, Retriable
    from barnabas.model.ids import TopicPartition

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "BufferFull",
    "Corrupt",
    "Delivery",
    "Failed",
    "Fenced",
    "InvalidRequest",
    "KafkaError",
    "Producer",
    "RecordMetadata",
    "Retriable",
    "TopicPartition",
]

_WHERE = {
    "Admin": "barnabas.client.admin",
    "BufferFull": "barnabas.client.accumulator",
    "Corrupt": "barnabas.model.errors",
    "Delivery": "barnabas.client.accumulator",
    "Failed": "barnabas.model.errors",
    "Fenced": "barnabas.model.errors",
    "InvalidRequest": "barnabas.model.errors",
    "KafkaError": "barnabas.model.errors",
    "Producer": "barnabas.client.aio.producer",
    "RecordMetadata": "barnabas.client.accumulator",
    "Retriable": "barnabas.model.errors",
    "TopicPartition": "barnabas.model.ids",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'barnabas' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
