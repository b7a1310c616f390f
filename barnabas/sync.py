"""The client that blocks: the names of `barnabas`, for scripts, threads and Spark's executors.

No event loop runs, and none is needed.
"""

from typing import TYPE_CHECKING

from barnabas.model.lazy import lazy_names

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.blocking.consumer import Consumer
    from barnabas.client.blocking.partition_consumer import PartitionConsumer
    from barnabas.client.blocking.producer import Producer
    from barnabas.client.blocking.share_consumer import ShareConsumer
    from barnabas.client.consumer.zookeeper_consumer import ZookeeperConsumer

__all__ = [
    "Admin",
    "Consumer",
    "PartitionConsumer",
    "Producer",
    "ShareConsumer",
    "ZookeeperConsumer",
]

_WHERE = {
    "Admin": "barnabas.client.blocking.admin",
    "Consumer": "barnabas.client.blocking.consumer",
    "PartitionConsumer": "barnabas.client.blocking.partition_consumer",
    "Producer": "barnabas.client.blocking.producer",
    "ShareConsumer": "barnabas.client.blocking.share_consumer",
    "ZookeeperConsumer": "barnabas.client.consumer.zookeeper_consumer",
}

__getattr__, __dir__ = lazy_names(globals(), _WHERE)
