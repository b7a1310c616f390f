"""Fetch answers made by hand."""

from uuid import UUID

from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.records import Record, encode_batch

AT = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
ID = UUID(int=7)


def batch(
    first: int,
    count: int,
    *,
    producer_id: int = -1,
    transactional: bool = False,
    control_key: bytes | None = None,
    leader_epoch: int = 0,
    size: int = 0,
) -> bytes:
    records = [
        Record(first + i, 0, control_key, b"%d" % (first + i) + bytes(size)) for i in range(count)
    ]
    return bytes(
        encode_batch(
            records,
            base_offset=first,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
            control=control_key is not None,
            leader_epoch=leader_epoch,
        )
    )


def fetched(
    *batches: bytes,
    partition: int = 0,
    error: int = 0,
    aborted: tuple[tuple[int, int], ...] = (),
    replica: int = -1,
) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=100,
        aborted_transactions=[
            AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted
        ],
        preferred_read_replica=replica,
        records=b"".join(batches),
    )


def response(*partitions: PartitionData, session: int = 0, error: int = 0) -> FetchResponse:
    topic = FetchableTopicResponse(topic_id=ID, partitions=list(partitions))
    return FetchResponse(session_id=session, error_code=error, responses=[topic])


def view(
    *leaders: int, brokers: tuple[int, ...] = (1, 2), epoch: int = 3, topic_id: UUID = ID
) -> MetadataSnapshot:
    """Topic t, with a partition for each of these leaders."""
    return MetadataSnapshot(
        MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=id_, host="h", port=9) for id_ in brokers],
            topics=[
                MetadataResponseTopic(
                    error_code=0,
                    name="t",
                    topic_id=topic_id,
                    partitions=[
                        MetadataResponsePartition(
                            error_code=0,
                            partition_index=number,
                            leader_id=leader,
                            leader_epoch=epoch,
                            replica_nodes=[1],
                            isr_nodes=[1],
                        )
                        for number, leader in enumerate(leaders)
                    ],
                )
            ],
        )
    )
