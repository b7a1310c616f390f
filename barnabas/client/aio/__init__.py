"""The asyncio driver: connections watched by the running event loop."""

from collections.abc import Mapping

from barnabas.client.aio.net import AsyncioNet
from barnabas.client.cluster import ClusterClient
from barnabas.config.client import ClientConfig, Settings, Value


def open_cluster(settings: Settings | None, options: Mapping[str, Value]) -> ClusterClient:
    """For flows on the running event loop; nothing is connected yet."""
    return ClusterClient(ClientConfig(settings, **options), AsyncioNet())
