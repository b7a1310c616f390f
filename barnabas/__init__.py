"""Barnabas: an event log, compatible with Apache Kafka.

The names of the client are here: `from barnabas import Admin`; the same, blocking, in
`barnabas.sync`. Each is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any

from barnabas.model.lazy import lazy_names
from barnabas.model.version import VERSION

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.aio.producer import Producer
    from barnabas.client.consumer.consumer import Consumer
    from barnabas.client.consumer.deserializing import Unreadable
    from barnabas.client.consumer.membership.assignors import Assignor
    from barnabas.client.consumer.membership.membership import Cause
    from barnabas.client.consumer.message import Message
    from barnabas.client.consumer.offset_lookup import Committed, Rebalancing
    from barnabas.client.consumer.one_poll import WokenUp
    from barnabas.client.consumer.partition_consumer import PartitionConsumer
    from barnabas.client.group_metadata import GroupMetadata
    from barnabas.client.producer.accumulator import BufferFull
    from barnabas.client.producer.batches import Delivery, RecordMetadata
    from barnabas.client.producer.record import ProducerRecord
    from barnabas.client.share.acknowledge_type import AcknowledgeType
    from barnabas.client.share.share_consumer import ShareConsumer
    from barnabas.client.workers.calls import HandlerFailed
    from barnabas.client.workers.parallel import parallel
    from barnabas.client.workers.per_batch import per_batch
    from barnabas.client.workers.per_range import per_range
    from barnabas.client.workers.per_thread import per_thread
    from barnabas.client.workers.policy import Reject, Retry
    from barnabas.model.errors import (
        Abortable,
        Corrupt,
        Failed,
        Fenced,
        InvalidRequest,
        KafkaError,
        Retriable,
    )
    from barnabas.model.ids import TopicPartition

    # Of barnabas.notebook, which is above the modules that ask for our version.
    def start(brokers: int = 1, **settings: object) -> Any: ...
    def connect(bootstrap_servers: str = "localhost:9092", **settings: object) -> Any: ...
    def sql(query: str, bootstrap_servers: str | None = None) -> Any: ...


__version__ = VERSION

__all__ = [
    "Abortable",
    "AcknowledgeType",
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
    "GroupMetadata",
    "HandlerFailed",
    "InvalidRequest",
    "KafkaError",
    "Message",
    "PartitionConsumer",
    "Producer",
    "ProducerRecord",
    "Rebalancing",
    "RecordMetadata",
    "Reject",
    "Retriable",
    "Retry",
    "ShareConsumer",
    "TopicPartition",
    "Unreadable",
    "WokenUp",
    "connect",
    "parallel",
    "per_batch",
    "per_range",
    "per_thread",
    "sql",
    "start",
]

_WHERE = {
    "Abortable": "barnabas.model.errors",
    "AcknowledgeType": "barnabas.client.share.acknowledge_type",
    "Admin": "barnabas.client.admin.admin",
    "Assignor": "barnabas.client.consumer.membership.assignors",
    "BufferFull": "barnabas.client.producer.accumulator",
    "Cause": "barnabas.client.consumer.membership.membership",
    "Committed": "barnabas.client.consumer.offset_lookup",
    "Consumer": "barnabas.client.consumer.consumer",
    "Corrupt": "barnabas.model.errors",
    "Delivery": "barnabas.client.producer.batches",
    "Failed": "barnabas.model.errors",
    "Fenced": "barnabas.model.errors",
    "GroupMetadata": "barnabas.client.group_metadata",
    "HandlerFailed": "barnabas.client.workers.calls",
    "InvalidRequest": "barnabas.model.errors",
    "KafkaError": "barnabas.model.errors",
    "Message": "barnabas.client.consumer.message",
    "PartitionConsumer": "barnabas.client.consumer.partition_consumer",
    "Producer": "barnabas.client.aio.producer",
    "ProducerRecord": "barnabas.client.producer.record",
    "Rebalancing": "barnabas.client.consumer.offset_lookup",
    "RecordMetadata": "barnabas.client.producer.batches",
    "Reject": "barnabas.client.workers.policy",
    "Retriable": "barnabas.model.errors",
    "Retry": "barnabas.client.workers.policy",
    "ShareConsumer": "barnabas.client.share.share_consumer",
    "TopicPartition": "barnabas.model.ids",
    "Unreadable": "barnabas.client.consumer.deserializing",
    "WokenUp": "barnabas.client.consumer.one_poll",
    "connect": "barnabas.notebook.notebook",
    "parallel": "barnabas.client.workers.parallel",
    "per_batch": "barnabas.client.workers.per_batch",
    "per_range": "barnabas.client.workers.per_range",
    "per_thread": "barnabas.client.workers.per_thread",
    "sql": "barnabas.sql",
    "start": "barnabas.notebook.notebook",
}

__getattr__, __dir__ = lazy_names(globals(), _WHERE)
