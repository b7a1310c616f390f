"""What both producers do: read the options, make requests, take answers apart, ask for ids.

Not here: deciding (outbox.py), waiting (aio/producer.py, blocking/producer.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from barnabas.client.accumulator import Accumulator
from barnabas.client.batches import Callback, RecordMetadata, complain
from barnabas.client.cluster import Cluster
from barnabas.client.errors import check
from barnabas.client.metadata import View
from barnabas.client.outbox import Outgoing, Rules
from barnabas.config.client import ClientConfig
from barnabas.config.option import invalid
from barnabas.model.errors import Code, Failed, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.compression import Codec
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ACKS_ALL = -1
IDEMPOTENT_IN_FLIGHT_MAX = 5
_BY_NAME_MAX = 12  # the last version of Produce that names topics
_INIT_PRODUCER_ID = 22

HURRY_S = 2.0  # for what is under way when a `with` block is left by an exception

Serializer = Callable[[Any], bytes | None]


class ProducerRecord(NamedTuple):
    """A record as an interceptor sees it, before it is serialized."""

    topic: str
    value: Any
    key: Any = None
    headers: Any = ()
    partition: int | None = None
    timestamp: int | None = None


class Interceptor(Protocol):
    """Sees every record on its way out, and what became of it."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord: ...

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None: ...


def rules_of(config: ClientConfig) -> Rules:
    acks = ACKS_ALL if config.acks == "all" else int(config.acks)
    idempotent = config.enable_idempotence and acks == ACKS_ALL
    if config.enable_idempotence and not idempotent and "enable.idempotence" in config.given:
        raise invalid(f"enable.idempotence=true needs acks=all, but acks={config.acks}")
    in_flight_max = config.max_in_flight_requests_per_connection
    if idempotent and in_flight_max > IDEMPOTENT_IN_FLIGHT_MAX:
        raise invalid(
            f"max.in.flight.requests.per.connection={in_flight_max}: with "
            f"enable.idempotence at most {IDEMPOTENT_IN_FLIGHT_MAX}, as brokers remember no more"
        )
    return Rules(
        acks=acks,
        idempotent=idempotent,
        codec=Codec[config.compression_type.upper()],
        linger_ms=config.linger_ms,
        request_size_max=config.max_request_size,
        in_flight_max=in_flight_max,
        retries_max=config.retries,
        delivery_timeout_ms=config.delivery_timeout_ms,
        block_ms_max=config.max_block_ms,
        backoff_ms=config.retry_backoff_ms,
        backoff_ms_max=config.retry_backoff_max_ms,
        metadata_age_ms_max=config.metadata_max_age_ms,
    )


def preparation(
    key_serializer: Serializer | None,
    value_serializer: Serializer | None,
    interceptors: Sequence[Interceptor],
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
            topic, value, key, headers, partition, timestamp = record
            callback = _ToldToo(interceptors, callback)
        if key_serializer is not None and key is not None:
            key = key_serializer(key)
        if value_serializer is not None and value is not None:
            value = value_serializer(value)
        return topic, value, key, headers, partition, timestamp, callback

    return prepare


class _ToldToo:
    """Tells interceptors, each whatever the others do, then the one who sent the record."""

    def __init__(self, interceptors: Sequence[Interceptor], callback: Callback | None) -> None:
        self._interceptors = interceptors
        self._callback = callback
        self.sender_hears = callback is not None

    def __call__(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                complain(interceptor)
        if self._callback is not None:
            self._callback(metadata, error)


def raise_failed(accumulator: Accumulator) -> None:
    """Of records that failed, unless their senders have been told."""
    count, first = accumulator.take_failed()
    if first is not None:
        raise Failed(first.code, f"{count} records were not written, the first: {first.detail}")


def given_up() -> KafkaError:
    return Retriable(
        Code.REQUEST_TIMED_OUT, "the producer was closed before an answer came: it may be written"
    )


class Request(NamedTuple):
    """A request to send, and how its answer names topics."""

    message: ProduceRequest
    version_max: int | None
    names: dict[Any, str]


def request_of(outgoing: Outgoing, view: View, rules: Rules, timeout_ms: int) -> Request:
    topics: dict[str, list[PartitionProduceData]] = {}
    for batch in outgoing.batches:
        assert batch.queue is not None
        data = PartitionProduceData(index=batch.queue.partition, records=batch.data)
        topics.setdefault(batch.queue.topic, []).append(data)
    ids = {name: view.topics[name].id if name in view.topics else NO_TOPIC_ID for name in topics}
    message = ProduceRequest(
        acks=rules.acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(name=name, topic_id=ids[name], partition_data=data)
            for name, data in topics.items()
        ],
    )
    by_name = NO_TOPIC_ID in ids.values()
    return Request(
        message, _BY_NAME_MAX if by_name else None, {id_: name for name, id_ in ids.items()}
    )


def answers_of(
    response: ProduceResponse, names: Mapping[Any, str]
) -> dict[tuple[str, int], PartitionProduceResponse]:
    found: dict[tuple[str, int], PartitionProduceResponse] = {}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for answer in topic.partition_responses:
            found[name, answer.index] = answer
    return found


async def producer_identity(cluster: Cluster) -> tuple[int, int]:
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


async def picture(cluster: Cluster, topics: Sequence[str]) -> View:
    """Of these topics, which the broker may create for the asking."""
    cluster.watch(topics)
    return await cluster.refresh(create=cluster.config.allow_auto_create_topics)
