"""Writes letters: single records with a given producer id and sequence number.

Written over `Net`, like all flows. The producer cannot do this: it numbers its batches itself, and
starts with a new id in each process.
"""

from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check, partition_error
from barnabas.client.workers.window.effects import SendLetter
from barnabas.client.workers.window.outbox import LetterProducer
from barnabas.model.errors import Code, InvalidRequest, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch

_BY_NAME = 12  # the last version whose topics have names
_ALL = -1
_UNNUMBERED = frozenset(
    {
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Code.UNKNOWN_PRODUCER_ID,
        Code.INVALID_PRODUCER_EPOCH,
    }
)


# the record is written, or was refused for good
_NUMBERS = _UNNUMBERED | {Code.DUPLICATE_SEQUENCE_NUMBER}


class LetterWriter:
    """Of one worker."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def identify(self) -> LetterProducer:
        """A new producer id."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)

        async def attempt() -> LetterProducer:
            connection = await self._cluster.anyone()
            answer = await connection.call(
                request, InitProducerIdResponse, timeout_ms=self._cluster.timeout_ms
            )
            check(answer.error_code, about="a producer id for retries and dead letters")
            return LetterProducer(answer.producer_id, answer.producer_epoch)

        return await self._cluster.retrying(attempt)

    async def send(self, letter: SendLetter) -> bool:
        """Write a letter. False: the sequence number is not the next one of the partition."""
        batch = encode_batch(
            [Record(0, letter.timestamp, letter.key, letter.value, letter.headers)],
            producer_id=letter.identity.producer_id,
            producer_epoch=letter.identity.epoch,
            base_sequence=letter.sequence,
        )
        about = f"for the record at {letter.at} offset {letter.offset}"
        part = await self._produce(letter.to, batch, about)
        return part.error_code not in _UNNUMBERED

    async def append(self, to: TopicPartition, value: bytes, timestamp: int) -> None:
        """Write a receipt; after an attempt without a response it may be written twice."""
        await self._produce(to, encode_batch([Record(0, timestamp, None, value)]), "for a receipt")

    async def _produce(
        self, to: TopicPartition, batch: bytearray, about: str
    ) -> PartitionProduceResponse:
        request = ProduceRequest(
            acks=_ALL,
            timeout_ms=self._cluster.timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=to.topic,
                    partition_data=[PartitionProduceData(index=to.partition, records=batch)],
                )
            ],
        )

        async def attempt() -> PartitionProduceResponse:
            try:
                connection = await self._cluster.leader(to)
            # the topic existed at the start, and may be created again
            except InvalidRequest as problem:
                raise Retriable(problem.code, problem.detail) from None
            answer = await connection.call(
                request,
                ProduceResponse,
                timeout_ms=self._cluster.timeout_ms,
                version_max=_BY_NAME,
            )
            part = answer.responses[0].partition_responses[0]
            if part.error_code and part.error_code not in _NUMBERS:
                message = part.error_message
                raise partition_error(part.error_code, message, about=f"{to}, {about}")
            return part

        return await self._cluster.retrying(attempt)
