"""Builds the requests that change the offsets of a group."""

from collections.abc import Iterable, Mapping

from barnabas.client.consumer.offset_lookup import Committed
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for at in partitions:
        found.setdefault(at.topic, []).append(at)
    return found


def offset_commit_request(
    group: str, offsets: Mapping[TopicPartition, Committed]
) -> OffsetCommitRequest:
    """Without a member id: the coordinator refuses it while the group has members."""
    return OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=at.partition,
                        committed_offset=offsets[at].offset,
                        committed_leader_epoch=offsets[at].leader_epoch,
                        committed_metadata=offsets[at].metadata,
                    )
                    for at in partitions
                ],
            )
            for topic, partitions in by_topic(offsets).items()
        ],
    )


def offset_delete_request(group: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=at.partition) for at in of_topic
                ],
            )
            for topic, of_topic in by_topic(partitions).items()
        ],
    )
