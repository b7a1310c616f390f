"""A member of a share group over a wire in memory, with no client's manners."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from barnabas.broker.share.coordination import share_states
from barnabas.model.errors import Code
from barnabas.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from barnabas.wire.messages.share_fetch import (
    AcknowledgementBatch as FetchAcknowledgementBatch,
)
from barnabas.wire.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from barnabas.wire.records import decode_batch, iter_batches
from tests.broker.running import Running, running_broker

GROUP = "queue"


class Member:
    """Its session epoch goes on with each request; one topic, partition 0."""

    def __init__(self, broker: Running, topic: UUID, name: str = "m1", group: str = GROUP) -> None:
        self.broker = broker
        self.topic = topic
        self.name = name
        self.group = group
        self.epoch = 0
        self.wire = broker.connect()

    def request(
        self,
        acks: tuple[tuple[int, int, int], ...] = (),
        *,
        wait_ms: int = 0,
        records: int = 500,
        epoch: int | None = None,
        mode: int = 0,
        renew: bool = False,
        forget: bool = False,
        partition: int = 0,
    ) -> ShareFetchRequest:
        if epoch is None:
            epoch = self.epoch
            self.epoch += 1
        batches = [
            FetchAcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=[type_]
            )
            for first, last, type_ in acks
        ]
        named = [FetchPartition(partition_index=partition, acknowledgement_batches=batches)]
        return ShareFetchRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=epoch,
            max_wait_ms=0 if renew else wait_ms,
            min_bytes=0 if renew else 1,
            max_bytes=0 if renew else 1 << 20,
            max_records=0 if renew else records,
            batch_size=records,
            share_acquire_mode=mode,
            is_renew_ack=renew,
            topics=[FetchTopic(topic_id=self.topic, partitions=named)] if acks or not epoch else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=self.topic, partitions=[partition])]
            if forget
            else [],
        )

    async def fetch(
        self, *acks: tuple[int, int, int], version: int = 2, **options: object
    ) -> "Reply":
        request = self.request(acks, **options)  # type: ignore[arg-type]
        response = await self.broker.ask(request, ShareFetchResponse, version, self.wire)
        return Reply(response)

    def send(self, *acks: tuple[int, int, int], **options: object) -> ShareFetchRequest:
        request = self.request(acks, **options)  # type: ignore[arg-type]
        self.broker.send(request, 2, self.wire)
        return request

    async def receive(self, request: ShareFetchRequest) -> "Reply":
        return Reply(await self.broker.receive(request, ShareFetchResponse, 2, self.wire))

    async def acknowledge(
        self, *acks: tuple[int, int, int], epoch: int | None = None, renew: bool = False
    ) -> ShareAcknowledgeResponse:
        if epoch is None:
            epoch = self.epoch
            self.epoch += 1
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[type_])
            for first, last, type_ in acks
        ]
        partitions = [AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)]
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=epoch,
            is_renew_ack=renew,
            topics=[AcknowledgeTopic(topic_id=self.topic, partitions=partitions)],
        )
        return await self.broker.ask(request, ShareAcknowledgeResponse, 2, self.wire)

    async def accept(self, first: int, last: int, type_: int = 1) -> Code:
        response = await self.acknowledge((first, last, type_))
        assert not response.error_code
        return code_of(response.responses[0].partitions[0].error_code)


CODES = {int(code): code for code in Code}


def code_of(number: int) -> Code:
    return CODES[number]


class Reply:
    """What a fetch got of the partition."""

    def __init__(self, response: ShareFetchResponse) -> None:
        self.response = response
        self.code = code_of(response.error_code)
        self.lock_ms = response.acquisition_lock_timeout_ms
        found: list[PartitionData] = [
            each for topic in response.responses for each in topic.partitions
        ]
        self.partition = found[0] if found else None
        self.acquired = [
            (each.first_offset, each.last_offset, each.delivery_count)
            for each in (self.partition.acquired_records if self.partition else ())
        ]
        self.error = code_of(self.partition.error_code) if self.partition else Code.NONE
        self.ack = code_of(self.partition.acknowledge_error_code) if self.partition else Code.NONE

    @property
    def offsets(self) -> list[int]:
        """Of all records that were sent, acquired or not."""
        if self.partition is None:
            return []
        data = self.partition.records
        assert isinstance(data, bytes | memoryview)
        return [
            record.offset
            for header, batch in iter_batches(bytes(data))
            for record in decode_batch(batch, header=header)
        ]


@asynccontextmanager
async def share_broker(
    directory: Path,
    records: int = 10,
    settings: Mapping[str, str] | None = None,
    group: str = GROUP,
    **options: object,
) -> AsyncIterator[tuple[Running, UUID]]:
    """A broker with a topic of one partition, batches of ten records, and a group that begins at
    offset 0."""
    async with running_broker(directory, settings, **options) as broker:  # type: ignore[arg-type]
        existing = broker.broker.topics.get("jobs")
        if existing is None:
            topic = (await broker.create("jobs")).topic_id
            for _ in range(records // 10):
                await broker.produce("jobs", *range(10))
            await initialize(broker, topic, group)
        else:
            topic = existing.id
        yield broker, topic


async def initialize(
    broker: Running, topic: UUID, group: str = GROUP, start: int = 0, epoch: int = 1
) -> None:
    (result,) = await share_states(broker.broker).initialize(group, {(topic, 0): start}, epoch)
    assert not result.code, result
