"""The client that blocks: the names of `barnabas`, for scripts, threads and Spark's executors.

No event loop runs, and none is needed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.blocking.consumer import Consumer
    from barnabas.client.blocking.partition_consumer import PartitionConsumer
    from barnabas.client.blocking.producer import Producer
    from barnabas.client.zookeeper_consumer import ZookeeperConsumer

__all__ = ["Admin", "Consumer", "PartitionConsumer", "Producer", "ZookeeperConsumer"]

_WHERE = {
    "Admin": "barnabas.client.blocking.admin",
    "Consumer": "barnabas.client.blocking.consumer",
    "PartitionConsumer": "barnabas.client.blocking.partition_consumer",
    "Producer": "barnabas.client.blocking.producer",
    "ZookeeperConsumer": "barnabas.client.zookeeper_consumer",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'barnabas.sync' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
