"""A blocking producer: adds records, and sends them when asked or when enough wait.

Always: with acks=all a record is written once, however often it was sent; each record is
reported once, with its offset or its error.
Not here: sending in the background; that is the asyncio producer's work.
"""

import random
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from barnabas.client.accumulator import NOBODY, Accumulator, Batch, Identity
from barnabas.client.backoff import waits_ms
from barnabas.client.blocking.net import run
from barnabas.client.cluster import Cluster
from barnabas.client.errors import check, partition_error
from barnabas.client.partitioner import partition_of
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.wire.compression import Codec
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Headers

ACKS_ALL = -1
_BY_NAME_MAX = 12  # the last version of Produce that names topics
_CREATION_MS_MAX = 3_000


class Delivery(NamedTuple):
    """What became of one record. Without acks there is no offset: -1."""

    handle: object
    at: TopicPartition
    offset: int
    error: KafkaError | None


class Producer:
    """To be flushed at the end. `delivered` is called for each record, in order by partition."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        codec: Codec = Codec.NONE,
        batch_size_max: int = 1_000_000,
        buffer_size_max: int = 16_000_000,
        delivered: Callable[[Delivery], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._acks = acks
        self._buffer_size_max = buffer_size_max
        self._delivered = delivered
        self._accumulator = Accumulator(codec=codec, batch_size_max=batch_size_max)
        self._identified = acks != ACKS_ALL  # only acks=all can promise that nothing is lost
        self._sticky: dict[str, int] = {}

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        handle: object = None,
    ) -> None:
        """Add a record; sends what waits when that is `buffer_size_max`."""
        if partition is None:
            partition = self._choose(topic, key)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        at = TopicPartition(topic, partition)
        self._accumulator.add(at, key, value, headers, timestamp_ms, handle)
        if self._accumulator.size >= self._buffer_size_max:
            self.flush()

    def flush(self) -> None:
        """Send all that waits, and report each record."""
        while waiting := self._accumulator.waiting():
            if not self._identified:
                self._identify()
            self._deliver([self._accumulator.take(at) for at in waiting])
            self._sticky.clear()

    def _choose(self, topic: str, key: bytes | None) -> int:
        if key is None and topic in self._sticky:
            return self._sticky[topic]
        count = len(self._existing(topic))
        if key is not None:
            return partition_of(key, count)
        chosen = self._sticky[topic] = random.randrange(count)
        return chosen

    def _existing(self, topic: str) -> list[int]:
        """Partitions of a topic, which the broker may create for the asking."""
        view = run(self._cluster.retrying(lambda: self._cluster.view([topic])))
        deadline = time.monotonic() + min(self._cluster.timeout_ms, _CREATION_MS_MAX) / 1000
        waits = waits_ms(iter(random.random, None))
        created = False
        while topic not in view.topics:
            problem = view.errors.get(topic)
            unknown = problem is None or problem.code is Code.UNKNOWN_TOPIC_OR_PARTITION
            if not unknown and not isinstance(problem, Retriable):
                break
            if created:
                if time.monotonic() > deadline:
                    break
                time.sleep(next(waits) / 1000)
            created = True
            view = run(self._cluster.retrying(lambda: self._cluster.refresh(create=True)))
        return [partition.number for partition in view.topic(topic).partitions]

    def _identify(self) -> None:
        """Become a producer whose duplicates the broker can see, if it offers that."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

        async def attempt() -> Identity:
            connection = await self._cluster.anyone()
            response = await connection.call(
                request, InitProducerIdResponse, timeout_ms=self._cluster.timeout_ms
            )
            check(response.error_code, about="producer id")
            return Identity(response.producer_id, response.producer_epoch)

        try:
            self._accumulator.identify(run(self._cluster.retrying(attempt)))
        except InvalidRequest as problem:
            if problem.code is not Code.UNSUPPORTED_VERSION:
                raise
            self._accumulator.identify(NOBODY)
        self._identified = True

    def _deliver(self, batches: list[Batch]) -> None:
        """Until each is written or has failed for good."""
        deadline = time.monotonic() + self._cluster.timeout_ms / 1000
        waits = waits_ms(iter(random.random, None))
        while batches:
            failed = self._attempt(batches)
            again = [batch for batch, why in failed if isinstance(why, Retriable)]
            wait_s = next(waits) / 1000
            if time.monotonic() + wait_s > deadline:
                again = []
            for batch, why in failed:
                if batch not in again:
                    self._report(batch, -1, why)
                    # What was not written leaves a gap in the numbers: start new ones.
                    self._identified = self._acks != ACKS_ALL
            batches = again
            if batches:
                time.sleep(wait_s)
                try:
                    run(self._cluster.refresh())
                except Retriable:
                    self._cluster.close()

    def _attempt(self, batches: list[Batch]) -> list[tuple[Batch, KafkaError]]:
        """Send each to its leader; those that were not written, and why."""
        failed: list[tuple[Batch, KafkaError]] = []
        by_leader: dict[int, list[Batch]] = {}
        for batch in batches:
            try:
                leader = run(self._cluster.view([batch.at.topic])).leader(batch.at)
                by_leader.setdefault(leader, []).append(batch)
            except KafkaError as why:
                failed.append((batch, why))
        sent: dict[int, Awaitable[ProduceResponse] | None] = {}
        for leader, group in by_leader.items():
            try:
                request, version_max = self._request(group)
                connection = run(self._cluster.broker(leader))
                if self._acks == 0:
                    connection.tell(request, version_max=version_max)
                    sent[leader] = None
                else:
                    sent[leader] = connection.send(
                        request,
                        ProduceResponse,
                        timeout_ms=self._cluster.timeout_ms,
                        version_max=version_max,
                    )
            except KafkaError as why:
                failed += [(batch, why) for batch in group]
        for leader, waiting in sent.items():
            failed += self._answered(waiting, by_leader[leader])
        return failed

    def _request(self, batches: list[Batch]) -> tuple[ProduceRequest, int | None]:
        view = run(self._cluster.view())
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            data = PartitionProduceData(index=batch.at.partition, records=batch.data)
            topics.setdefault(batch.at.topic, []).append(data)
        ids = {name: view.topic(name).id for name in topics}
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=self._cluster.timeout_ms,
            topic_data=[
                TopicProduceData(name=name, topic_id=ids[name], partition_data=data)
                for name, data in topics.items()
            ],
        )
        return request, _BY_NAME_MAX if NO_TOPIC_ID in ids.values() else None

    def _answered(
        self, waiting: "Awaitable[ProduceResponse] | None", batches: list[Batch]
    ) -> list[tuple[Batch, KafkaError]]:
        if waiting is None:
            for batch in batches:
                self._report(batch, -1, None)
            return []
        try:
            response = run(_awaited(waiting))
        except KafkaError as why:
            return [(batch, why) for batch in batches]
        view = run(self._cluster.view())
        answers: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in response.responses:
            name = topic.name or view.name_of(topic.topic_id)
            for answer in topic.partition_responses:
                answers[TopicPartition(name, answer.index)] = answer
        failed: list[tuple[Batch, KafkaError]] = []
        for batch in batches:
            found = answers.get(batch.at)
            if found is None:
                failed.append((batch, Corrupt(f"{batch.at} is missing in the answer")))
            elif found.error_code not in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
                said = found.error_message
                failed.append((batch, partition_error(found.error_code, said, about=str(batch.at))))
            else:
                self._report(batch, found.base_offset, None)
        return failed

    def _report(self, batch: Batch, base_offset: int, error: KafkaError | None) -> None:
        if self._delivered is None:
            if error is not None:
                raise error
            return
        for number, handle in enumerate(batch.handles):
            offset = base_offset + number if base_offset >= 0 else -1
            self._delivered(Delivery(handle, batch.at, offset, error))


async def _awaited(waiting: Awaitable[ProduceResponse]) -> ProduceResponse:
    return await waiting
