"""A blocking reader of given partitions, without a group.

Always: what is Retriable is tried again, on fresh metadata, until `timeout_ms` passed
without an answer; a partition whose offset is gone goes on at its start.
"""

import random
import time
from collections.abc import Awaitable, Iterator
from typing import Any

from barnabas.client.admin import EARLIEST
from barnabas.client.backoff import waits_ms
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.net import run
from barnabas.client.cluster import Cluster
from barnabas.client.positions import Limits, Message, Positions
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.wire.messages.fetch import FetchResponse

_BY_NAME_MAX = 12  # the last version of Fetch that names topics


class PartitionReader:
    """Reads on from `positions` until all have reached their stops, or for ever."""

    def __init__(
        self, cluster: Cluster, positions: Positions, limits: Limits | None = None
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        self._limits = limits or Limits()

    def __iter__(self) -> Iterator[Message]:
        while self._positions.reading():
            yield from self.poll()

    def poll(self) -> Iterator[Message]:
        """What one round of fetches brings; nothing if there was nothing new."""
        deadline = time.monotonic() + self._cluster.timeout_ms / 1000
        waits = waits_ms(iter(random.random, None))
        while True:
            try:
                fetched = self._round()
                break
            except Retriable as problem:
                wait_s = next(waits) / 1000
                if time.monotonic() + wait_s > deadline:
                    raise
                time.sleep(wait_s)
                if problem.code in (Code.NETWORK_EXCEPTION, Code.REQUEST_TIMED_OUT):
                    self._cluster.close()
                try:
                    run(self._cluster.refresh())
                except Retriable:
                    self._cluster.close()
        for at, answer in fetched:
            yield from self._positions.digest(at, answer)

    def _round(self) -> list[tuple[TopicPartition, Any]]:
        """Ask every leader at once, then gather the answers."""
        reading = self._positions.reading()
        view = run(self._cluster.view({at.topic: None for at in reading}))
        by_leader: dict[int, list[TopicPartition]] = {}
        for at in reading:
            by_leader.setdefault(view.leader(at), []).append(at)
        timeout_ms = self._cluster.timeout_ms + self._limits.wait_ms_max
        ids = {at.topic: view.topic(at.topic).id for at in reading}
        version_max = _BY_NAME_MAX if NO_TOPIC_ID in ids.values() else None
        try:
            waiting = []
            for leader, partitions in by_leader.items():
                epochs = {at: view.partition(at).leader_epoch for at in partitions}
                connection = run(self._cluster.broker(leader))
                waiting.append(
                    connection.send(
                        self._positions.request(partitions, ids, epochs, self._limits),
                        FetchResponse,
                        timeout_ms=timeout_ms,
                        version_max=version_max,
                    )
                )
            responses = [run(_awaited(each)) for each in waiting]
        except KafkaError:
            self._cluster.close()  # answers still under way must not be taken for later ones
            raise
        fetched = []
        for response in responses:
            for topic in response.responses:
                name = topic.topic or view.name_of(topic.topic_id)
                for answer in topic.partitions:
                    at = TopicPartition(name, answer.partition_index)
                    if problem := self._positions.problem(at, answer):
                        self._recover(at, problem)
                    else:
                        fetched.append((at, answer))
        return fetched

    def _recover(self, at: TopicPartition, problem: KafkaError) -> None:
        if problem.code is not Code.OFFSET_OUT_OF_RANGE:
            raise problem
        start = Admin(cluster=self._cluster).offsets({at: EARLIEST})[at].offset
        if self._positions[at] >= start:
            raise problem  # ahead of the end: the caller asked for what is not there
        self._positions.seek(at, start)


async def _awaited(waiting: Awaitable[FetchResponse]) -> FetchResponse:
    return await waiting
