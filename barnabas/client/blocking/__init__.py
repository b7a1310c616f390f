"""The blocking driver: sockets of the calling thread, and no event loop."""

from collections.abc import Mapping

from barnabas.client.blocking.net import BlockingNet
from barnabas.client.cluster import ClusterClient
from barnabas.config.client import ClientConfig, Settings, Value


def open_cluster(settings: Settings | None, options: Mapping[str, Value]) -> ClusterClient:
    """For flows run by `blocking.net.run`; nothing is connected yet."""
    return ClusterClient(ClientConfig(settings, **options), BlockingNet())
