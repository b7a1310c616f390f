"""The asyncio driver: connections watched by the running event loop."""

from collections.abc import Mapping

from barnabas.client.aio.net import AsyncioNet
from barnabas.client.cluster import Cluster
from barnabas.config.client import ClientConfig, Settings, Value


def open_cluster(settings: Settings | None, options: Mapping[str, Value]) -> Cluster:
    """For flows on the running event loop; nothing is connected yet."""
    return Cluster(ClientConfig(settings, **options), AsyncioNet())
