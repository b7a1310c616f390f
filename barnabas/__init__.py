"""Barnabas: an event log that any Kafka client can use.

The names of the client are here: `from barnabas import Admin`; the same, blocking, in
`barnabas.sync`. Each is imported when it is first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.client.accumulator import BufferFull, Delivery, RecordMetadata
    from barnabas.client.admin import Admin
    from barnabas.client.aio.producer import Producer
    from barnabas.client.assignors import Assignor
    from barnabas.client.consumer import Consumer
    from barnabas.client.membership import Cause
    from barnabas.client.message import Message
    from barnabas.client.messages import Unreadable
    from barnabas.client.partition_consumer import PartitionConsumer
    from barnabas.client.places import Committed, Rebalancing
    from barnabas.model.errors import Corrupt, Failed, Fenced, InvalidRequest, KafkaError, Retriable
    from barnabas.model.ids import TopicPartition

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "Assignor",
    "BufferFull",
    "Cause",
    "Committed",
    "Consumer",
    "Corrupt",
    "Delivery",
    "Failed",
    "Fenced",
    "InvalidRequest",
    "KafkaError",
    "Message",
    "PartitionConsumer",
    "Producer",
    "Rebalancing",
    "RecordMetadata",
    "Retriable",
    "TopicPartition",
    "Unreadable",
]

_WHERE = {
    "Admin": "barnabas.client.admin",
    "Assignor": "barnabas.client.assignors",
    "BufferFull": "barnabas.client.accumulator",
    "Cause": "barnabas.client.membership",
    "Committed": "barnabas.client.places",
    "Consumer": "barnabas.client.consumer",
    "Corrupt": "barnabas.model.errors",
    "Delivery": "barnabas.client.accumulator",
    "Failed": "barnabas.model.errors",
    "Fenced": "barnabas.model.errors",
    "InvalidRequest": "barnabas.model.errors",
    "KafkaError": "barnabas.model.errors",
    "Message": "barnabas.client.message",
    "PartitionConsumer": "barnabas.client.partition_consumer",
    "Producer": "barnabas.client.aio.producer",
    "Rebalancing": "barnabas.client.places",
    "RecordMetadata": "barnabas.client.accumulator",
    "Retriable": "barnabas.model.errors",
    "TopicPartition": "barnabas.model.ids",
    "Unreadable": "barnabas.client.messages",
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
