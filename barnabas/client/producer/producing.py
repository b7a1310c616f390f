"""What both producers share: builds requests, reads responses, writes log lines.

Flows over a cluster: request producer ids and metadata.
Not here: deciding (outbox.py), waiting (aio/producer.py, blocking/producer.py).
"""

import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check
from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.client.net import BrokerConnection, PendingResponse
from barnabas.client.producer.accumulator import Accumulator, BufferFull, Partitioner
from barnabas.client.producer.batches import Callback, ProducerBatch, RecordMetadata, complain
from barnabas.client.producer.outbox import Outbox, Outgoing
from barnabas.client.producer.record import ProducerRecord
from barnabas.client.producer.settings import ProducerSettings
from barnabas.config.client import ClientConfig
from barnabas.model.errors import Abortable, Code, Failed, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from barnabas.client.producer.transactions import Transactions

_BY_NAME_MAX = 12  # the last version of Produce that names topics
_PRODUCE, _INIT_PRODUCER_ID = 0, 22

HURRY_S = 2.0  # for what is under way when a `with` block is left by an exception

Serializer = Callable[[Any], bytes | None]
A = TypeVar("A", bound=Accumulator)
T = TypeVar("T")


class ProducerInterceptor(Protocol):
    """Sees every record on its way out, and what became of it."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord: ...

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None: ...


def accumulator_of(
    kind: type[A], config: ClientConfig, wake: Callable[[], None], partitioner: Partitioner | None
) -> A:
    return kind(
        batch_size_max=config.batch_size,
        buffer_size_max=config.buffer_memory,
        record_size_max=config.max_request_size,
        clock=time.monotonic,
        wall=time.time,
        chance=random.random,
        wake=wake,
        partitioner=partitioner,
    )


def preparation(
    key_serializer: Serializer | None,
    value_serializer: Serializer | None,
    interceptors: Sequence[ProducerInterceptor],
) -> Callable[..., tuple[Any, ...]] | None:
    """What is done to a record before it is added; None: nothing."""
    if key_serializer is None and value_serializer is None and not interceptors:
        return None

    def prepare(
        topic: str,
        value: Any,
        key: Any,
        headers: Any,
        partition: int | None,
        timestamp: int | None,
        callback: Callback | None,
    ) -> tuple[Any, ...]:
        if interceptors:
            record = ProducerRecord(topic, value, key, headers, partition, timestamp)
            for interceptor in interceptors:
                record = interceptor.on_send(record)
                if not isinstance(record, ProducerRecord):
                    raise InvalidRequest(
                        Code.INVALID_REQUEST,
                        f"on_send of the interceptor {interceptor!r:.200} returned"
                        f" {record!r:.100}: it must return a ProducerRecord, the one that it was"
                        " given or another",
                    )
            topic, value, key, headers, partition, timestamp = record
            callback = _WithInterceptors(interceptors, callback)
        if key_serializer is not None and key is not None:
            key = key_serializer(key)
        if value_serializer is not None and value is not None:
            value = value_serializer(value)
        return topic, value, key, headers, partition, timestamp, callback

    return prepare


class _WithInterceptors:
    """Calls each interceptor, also if another one fails, then the callback of the sender."""

    def __init__(
        self, interceptors: Sequence[ProducerInterceptor], callback: Callback | None
    ) -> None:
        self._interceptors = interceptors
        self._callback = callback
        self.reaches_sender = callback is not None

    def __call__(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                complain(interceptor)
        if self._callback is not None:
            self._callback(metadata, error)


def raise_failed(accumulator: Accumulator) -> None:
    """Of records that failed, unless their failures were reported to the sender."""
    count, first = accumulator.take_failed()
    if first is not None:
        kind = Abortable if isinstance(first, Abortable) else Failed
        raise kind(first.code, f"{count} records were not written, the first: {first.detail}")


def raise_beside(why: KafkaError, problem: BaseException | None) -> None:
    """A block was left by `problem`, which went wrong first and is to be seen; or by none."""
    if problem is None:
        raise why
    problem.add_note(f"producer: {why.detail}")


def drained_size(buffer_size_max: int) -> int:
    """Below this many bytes in use `drain` returns: many records can be added before the next."""
    return max(buffer_size_max // 2, 1)


def still_full(accumulator: Accumulator, settings: ProducerSettings) -> BufferFull:
    return BufferFull(
        Code.REQUEST_TIMED_OUT,
        f"buffer.memory={accumulator.buffer_size_max} had no room within "
        f"max.block.ms={settings.block_ms_max}: check that the broker is running",
    )


def under_way(accumulator: Accumulator) -> list[ProducerBatch]:
    """Batches of topics that are known."""
    return [batch for queue in accumulator.queues() for batch in (*queue.flying, *queue.waiting)]


def whole(batch: ProducerBatch) -> ProducerBatch:
    """Which is done when all its records are; it may have been split."""
    while batch.owner is not None:
        batch = batch.owner
    return batch


def given_up() -> KafkaError:
    return Retriable(
        Code.REQUEST_TIMED_OUT,
        "the producer was closed before the broker answered; the record may have been written",
    )


class ProduceCall(NamedTuple):
    """A request to send, and how its answer names topics."""

    message: ProduceRequest
    timeout_ms: int
    version_max: int | None
    names: dict[Any, str]

    def send_one_way(self, connection: BrokerConnection) -> Awaitable[None] | None:
        return connection.send_one_way(
            self.message, timeout_ms=self.timeout_ms, version_max=self.version_max
        )

    def send(self, connection: BrokerConnection) -> PendingResponse[ProduceResponse]:
        return connection.send(
            self.message,
            ProduceResponse,
            timeout_ms=self.timeout_ms,
            version_max=self.version_max,
        )


def request_of(
    outgoing: Outgoing,
    settings: ProducerSettings,
    timeout_ms: int,
    transactions: "Transactions | None" = None,
) -> ProduceCall:
    topics: dict[str, list[PartitionProduceData]] = {}
    ids: dict[str, UUID] = {}
    for batch in outgoing.batches:
        assert batch.queue is not None
        data = PartitionProduceData(index=batch.queue.partition, records=batch.data)
        topics.setdefault(batch.queue.topic, []).append(data)
        ids[batch.queue.topic] = batch.queue.topic_id
    message = ProduceRequest(
        transactional_id=settings.transactional_id,
        acks=settings.acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(name=name, topic_id=ids[name], partition_data=data)
            for name, data in topics.items()
        ],
    )
    version_max = _BY_NAME_MAX if NO_TOPIC_ID in ids.values() else None
    if transactions is not None and (limit := transactions.version_max(_PRODUCE)) is not None:
        version_max = limit
    return ProduceCall(message, timeout_ms, version_max, {id_: name for name, id_ in ids.items()})


def answers_of(
    response: ProduceResponse, names: Mapping[Any, str]
) -> dict[tuple[str, int], PartitionProduceResponse]:
    found: dict[tuple[str, int], PartitionProduceResponse] = {}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for answer in topic.partition_responses:
            found[name, answer.index] = answer
    return found


async def producer_identity(cluster: ClusterClient) -> tuple[int, int]:
    """A producer id and its epoch, from any broker."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    connection = await cluster.anyone()
    try:
        connection.version_of(_INIT_PRODUCER_ID)
    except InvalidRequest:
        raise InvalidRequest(
            Code.UNSUPPORTED_VERSION,
            f"{connection.address} gives out no producer ids: set enable.idempotence=false",
        ) from None
    response = await connection.call(request, InitProducerIdResponse, timeout_ms=cluster.timeout_ms)
    check(response.error_code, about="producer id")
    return response.producer_id, response.producer_epoch


async def refresh_metadata(cluster: ClusterClient, topics: Sequence[str]) -> MetadataSnapshot:
    """Of these topics, which the broker may create for the asking."""
    cluster.watch(topics)
    return await cluster.refresh(create=cluster.config.allow_auto_create_topics)


async def tried(flow: Coroutine[Any, Any, T]) -> tuple[T | None, KafkaError | None]:
    """The result, or the error."""
    try:
        return await flow, None
    except KafkaError as problem:
        return None, problem


def learn(
    outbox: Outbox,
    view: MetadataSnapshot | None,
    problem: KafkaError | None,
    now: int,
    *,
    reached: bool,
) -> None:
    """Handles the result of a Metadata request. `reached`: a broker has accepted a connection."""
    if view is not None:
        outbox.metadata_refresh.seen(view, now)
    elif problem is not None:
        outbox.metadata_refresh.unseen(problem, now, for_good=not reached)


def identify(outbox: Outbox, identity: tuple[int, int] | None, problem: KafkaError | None) -> bool:
    """What came of asking for an id; whether to ask again after a while."""
    if identity is not None:
        outbox.identify(*identity)
    elif problem is not None:
        again = isinstance(problem, Retriable)
        outbox.unidentified(problem, for_good=not again)
        return again
    return False


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
