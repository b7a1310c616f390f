"""Writes the results of calls with a producer that the first result opens."""

import asyncio
from typing import TYPE_CHECKING

from barnabas.client.cluster import ClusterClient
from barnabas.client.producer.record import ProducerRecord
from barnabas.client.workers.driver import log
from barnabas.model.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.client.aio.producer import Producer


class ResultWriter:
    """Of one run of a worker."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._producer: Producer | None = None

    async def write(self, results: tuple[ProducerRecord, ...]) -> None:
        if not results:
            return
        if self._producer is None:
            from barnabas.client.aio.producer import Producer

            self._producer = Producer(cluster=self._cluster)
        await asyncio.gather(*[self._send(self._producer, one) for one in results])

    async def close(self) -> None:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            try:
                await producer.close(timeout_s=0)
            except KafkaError as problem:
                log.info("results of unfinished calls were not written: %s", problem)

    async def _send(self, producer: "Producer", record: ProducerRecord) -> None:
        await producer.send(
            record.topic,
            record.value,
            key=record.key,
            headers=record.headers,
            partition=record.partition,
            timestamp=record.timestamp,
        )
