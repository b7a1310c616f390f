"""How long a reader waits before it tries again, on a clock that only the test moves."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.offset_lookup import Reset
from barnabas.client.consumer.positions import FetchPosition
from barnabas.client.consumer.reader import PartitionReader
from barnabas.client.net import Task
from barnabas.config.client import ClientConfig
from barnabas.model.errors import Code, Retriable
from barnabas.model.ids import TopicPartition

AT = TopicPartition("t", 0)
ANSWERED_AFTER_MS = 250  # longer than one waits to ask again
DEADLINE_MS = 10_000


class Net:
    """Waiting is what moves its clock."""

    under_way = False

    def __init__(self) -> None:
        self.now = 1

    def now_ms(self) -> int:
        return self.now

    def wake_up(self) -> "Net":
        return self

    def bounded_task(self) -> "Net":
        return self

    async def wait(self, _answers: Sequence[Any], ms: int) -> None:
        self.now += ms

    async def done(self, flow: Task, _until: int | None) -> bool:
        await flow()
        return True


class NoBrokers:
    """A cluster whose topics are known; nobody in it can be asked for records."""

    known: Any = object()

    def __init__(self) -> None:
        self.net = Net()
        self.config = ClientConfig(bootstrap_servers="127.0.0.1:1")

    def missing(self, _topics: object) -> bool:
        return False

    async def refresh(self) -> None:
        """There is no news."""

    def drop_closed(self) -> None:
        """None is open."""


def test_who_is_refused_late_asks_again_soon() -> None:
    cluster = NoBrokers()
    asked_at = []

    async def search(_lost: Sequence[TopicPartition]) -> dict[TopicPartition, FetchPosition]:
        asked_at.append(cluster.net.now)
        cluster.net.now += ANSWERED_AFTER_MS
        raise Retriable(Code.COORDINATOR_NOT_AVAILABLE, "there is no coordinator at the moment")

    reader = PartitionReader(cast(ClusterClient, cluster), Reset(), search)
    reader.add([AT])
    assert asyncio.run(reader.poll(1, DEADLINE_MS)) == []
    pauses = {after - before for before, after in pairwise(asked_at)}
    assert pauses == {ANSWERED_AFTER_MS + cluster.config.retry_backoff_ms}
