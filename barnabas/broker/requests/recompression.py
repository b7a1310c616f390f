"""Produce requests to topics whose compression.type differs from the producer's.

In: requests as received. Out: the same with their batches in the topic's codec, appended.
Always: compression runs in a thread; the connection waits for it, so that its batches stay in
order, and no other connection waits. Offsets, times and sequences are the producer's: only the
bytes of the records change.
Why a thread: zlib, the slow codec, releases the interpreter lock while it works; the others take
less than a millisecond per megabyte.
Not here: the append (handlers/produce.py).
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.model.errors import KafkaError
from barnabas.wire.batch import ATTRIBUTES_POSITION, CODEC_MASK
from barnabas.wire.compression import Codec
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
)
from barnabas.wire.records import recompressed

if TYPE_CHECKING:
    from barnabas.broker.topic import Topic, Topics

Answer = ProduceResponse | DeferredReply[ProduceResponse] | None
Append = Callable[[Mapping[tuple[int, int], KafkaError]], Answer | Coroutine[Any, Any, Answer]]
"""Appends the request. Its argument: the batches that could not be recompressed, by the indexes of
topic and partition in the request."""


def codec_of(compression_type: str) -> Codec | None:
    """None: the producer's choice."""
    if compression_type == "producer":
        return None
    return Codec.NONE if compression_type == "uncompressed" else Codec.named(compression_type)


class Recompression:
    """Created when a topic first needs it."""

    def __init__(self, topics: "Topics", loop: asyncio.AbstractEventLoop) -> None:
        self._topics = topics
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recompression")
        self.batches = 0

    def stop(self) -> None:
        self._thread.shutdown()

    def concerns(self, request: ProduceRequest, by_id: bool) -> bool:
        """Whether any batch must change."""
        return any(
            _differs(partition.records, topic.codec)
            for data in request.topic_data
            if (topic := self._topic(data.topic_id if by_id else data.name)) is not None
            and topic.codec is not None
            for partition in data.partition_data
        )

    def append(
        self, request: ProduceRequest, by_id: bool, append: Append
    ) -> Coroutine[Any, Any, Answer]:
        """Recompress, then `append`. The request's buffer is reused, so its bytes are copied
        now."""
        for data in request.topic_data:
            data.partition_data[:] = [
                _with_records(partition, bytearray(partition.records or b""))
                for partition in data.partition_data
            ]
        return self._append(request, by_id, append)

    async def _append(self, request: ProduceRequest, by_id: bool, append: Append) -> Answer:
        unreadable: dict[tuple[int, int], KafkaError] = {}
        for topic_place, data in enumerate(request.topic_data):
            topic = self._topic(data.topic_id if by_id else data.name)
            if topic is None or topic.codec is None:
                continue
            for place, partition in enumerate(data.partition_data):
                batch = partition.records
                if batch is None or not _differs(batch, topic.codec):
                    continue
                if len(batch) > topic.config.max_message_bytes:
                    continue  # the append refuses it
                try:
                    records = await self._loop.run_in_executor(
                        self._thread, recompressed, batch, topic.codec
                    )
                except KafkaError as error:
                    unreadable[topic_place, place] = error
                    continue
                data.partition_data[place] = _with_records(partition, records)
                self.batches += 1
        answer = append(unreadable)
        return await answer if isinstance(answer, Coroutine) else answer

    def _topic(self, name_or_id: str | UUID) -> "Topic | None":
        topics = self._topics
        return topics.get(name_or_id) if isinstance(name_or_id, str) else topics.by_id(name_or_id)


def _with_records(partition: PartitionProduceData, records: bytearray) -> PartitionProduceData:
    return PartitionProduceData(index=partition.index, records=records)


def _differs(batch: object, codec: Codec) -> bool:
    """Looks only at the attributes; the append checks whether it is a batch at all."""
    if (
        not isinstance(batch, bytes | bytearray | memoryview)
        or len(batch) <= ATTRIBUTES_POSITION + 1
    ):
        return False
    return batch[ATTRIBUTES_POSITION + 1] & CODEC_MASK != codec
