"""Writes letters: single records under a producer id and sequence number that were decided before.

Written over `Net`, like all flows. Not the producer: that one numbers its batches itself, and
starts anew with the process.
"""

from barnabas.client.cluster import Cluster
from barnabas.client.errors import check, partition_error
from barnabas.client.workers.effects import Send
from barnabas.client.workers.outbox import Identity
from barnabas.model.errors import Code, InvalidRequest, Retriable
from barnabas.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
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


class Post:
    """Of one worker."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def identify(self) -> Identity:
        """A producer id that nobody else has."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)

        async def attempt() -> Identity:
            connection = await self._cluster.anyone()
            answer = await connection.call(
                request, InitProducerIdResponse, timeout_ms=self._cluster.timeout_ms
            )
            check(answer.error_code, about="a producer id for retries and dead letters")
            return Identity(answer.producer_id, answer.producer_epoch)

        return await self._cluster.retrying(attempt)

    async def send(self, letter: Send) -> bool:
        """Is it there? False: the sequence number is not the one that the partition waits for."""
        to = letter.to
        record = Record(0, letter.timestamp, letter.key, letter.value, letter.headers)
        batch = encode_batch(
            [record],
            producer_id=letter.identity.producer_id,
            producer_epoch=letter.identity.epoch,
            base_sequence=letter.sequence,
        )
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

        async def attempt() -> bool:
            try:
                connection = await self._cluster.leader(to)
            except InvalidRequest as problem:  # it was there at the start, and may be again
                raise Retriable(problem.code, problem.detail) from None
            answer = await connection.call(
                request,
                ProduceResponse,
                timeout_ms=self._cluster.timeout_ms,
                version_max=_BY_NAME,
            )
            part = answer.responses[0].partition_responses[0]
            if part.error_code in _UNNUMBERED:
                return False
            if part.error_code and part.error_code != Code.DUPLICATE_SEQUENCE_NUMBER:
                about = f"{to}, for the record at {letter.at} offset {letter.offset}"
                raise partition_error(part.error_code, part.error_message, about=about)
            return True

        return await self._cluster.retrying(attempt)
