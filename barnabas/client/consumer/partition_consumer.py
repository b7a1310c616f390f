"""Reads given partitions, without a group that assigns them.

Written once over `Net`: `barnabas.PartitionConsumer` awaits, `barnabas.sync` blocks.
Always: it follows leaders; positions are the user's to set, and with a group.id to commit.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from barnabas.client.aio import open_cluster
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.deserializing import ConsumerInterceptor
from barnabas.client.consumer.message import K, V
from barnabas.client.consumer.message_stream import MessageStream
from barnabas.client.consumer.seeking import At, Numbers
from barnabas.config.client import Settings, Value
from barnabas.config.option import invalid
from barnabas.model.errors import InvalidRequest
from barnabas.model.ids import TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from barnabas.client.consumer.arrow import ArrowRows


class PartitionConsumer(MessageStream[K, V]):
    """`async with PartitionConsumer([("orders", 0)]) as c: async for message in c: ...`

    Starts at the committed offsets of `group.id`, or else by `auto.offset.reset`; seek to start
    elsewhere. Does not commit automatically.
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
        super().__init__(
            cluster or open_cluster(settings, options),
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            interceptors=interceptors,
            owns_cluster=cluster is None,
        )
        self._auto_commit = False
        self._rows: dict[bool, ArrowRows] = {}  # with headers, and without
        self.assign(partitions)

    def assign(self, partitions: Iterable[At]) -> None:
        """Read these from now on, and no others. Those that stay keep their positions."""
        self._put_back()
        wanted = dict.fromkeys(map(_partition, _several(partitions)))
        for at in wanted:
            if at.partition < 0:
                raise invalid(f"{at}: there are no partitions below 0")
        progress = self._reader.progress
        self._reader.remove([one.at for one in progress if one.at not in wanted])
        self._reader.add(wanted)
        self._reader.wake_up.notify()

    async def leader(self, at: At) -> int:
        """The broker that leads a partition at the moment."""
        at = TopicPartition(*at)

        async def look() -> int:
            return (await self._cluster.refresh()).leader(at)

        await self._cluster.retrying(lambda: self._cluster.view([at.topic]))
        return await self._cluster.retrying(look)

    def stop_at(self, stops: Numbers) -> None:
        """Return no messages at or after these offsets; the iteration ends at the last stop."""
        self._put_back()
        for at, offset in stops.items():
            self._reader.progress[TopicPartition(*at)].stop = offset

    def finished(self) -> bool:
        """Whether all partitions have a stop, and have reached it."""
        return self._reader.progress.finished

    async def read_arrow(
        self,
        max_rows: int = 100_000,
        timeout: float | None = None,  # noqa: ASYNC109  # no error, no rows
        *,
        headers: bool = False,
    ) -> "pyarrow.RecordBatch":
        """The next records as Arrow, with the columns of Spark's Kafka source.

        No object is created per record. Takes complete batches until there are `max_rows` rows.
        Waits for the first batch for ever, or for `timeout` seconds; then there are no rows.
        """
        from barnabas.client.consumer.arrow import ArrowRows

        self._cluster.net.check_owner()
        self._put_back()
        rows = self._rows.get(headers)
        if rows is None:
            rows = self._rows[headers] = ArrowRows(headers=headers)
        deadline = None if timeout is None else self._cluster.net.now_ms() + int(timeout * 1000)
        await self._reader.poll_rows(rows, max_rows, deadline)
        return rows.take()


def _several(partitions: object) -> Iterable[object]:
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise _not_partitions(partitions)
    return partitions


def _partition(at: object) -> TopicPartition:
    match at:
        case (str(topic), int(partition)):
            return TopicPartition(topic, partition)
    raise _not_partitions(at)


def _not_partitions(given: object) -> InvalidRequest:
    return invalid(f'partitions are given as in [("orders", 0), ("orders", 1)], not {given!r:.100}')
