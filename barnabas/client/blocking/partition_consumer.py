"""A reader of given partitions that blocks: the same flows, run by the calling thread."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.messages import BlockingMessages
from barnabas.client.blocking.net import mirrored
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.deserializing import ConsumerInterceptor
from barnabas.client.consumer.message import K, V
from barnabas.client.consumer.partition_consumer import PartitionConsumer as Flows
from barnabas.client.consumer.seeking import At, Numbers
from barnabas.config.client import Settings, Value


class PartitionConsumer(BlockingMessages[K, V]):
    """`with PartitionConsumer([("orders", 0)]) as c: for message in c: ...`

    `cluster`: one that is open already, and stays so.
    """

    def __init__(
        self,
        partitions: Iterable[At] = (),
        settings: Settings | None = None,
        /,
        *,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        cluster: ClusterClient | None = None,
        **options: Value,
    ) -> None:
        opened = open_cluster(settings, options) if cluster is None else cluster
        self._body: Flows[Any, Any] = Flows(
            partitions,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            interceptors=interceptors,
            cluster=opened,
        )
        self._body.stands_for(self, owns_cluster=cluster is None)

    def assign(self, partitions: Iterable[At]) -> None:
        """Read these from now on, and no others. Those that stay keep their positions."""
        self._body.assign(partitions)

    def stop_at(self, stops: Numbers) -> None:
        """Hand out nothing at or past these offsets; the iteration ends at the last stop."""
        self._body.stop_at(stops)

    def finished(self) -> bool:
        """Whether all partitions have a stop, and have reached it."""
        return self._body.finished()

    leader = mirrored(Flows[Any, Any].leader)
    read_arrow = mirrored(Flows[Any, Any].read_arrow)
