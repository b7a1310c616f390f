"""Committed offsets: storing, reading, and finding those past their retention.

In: what members or others commit, fetch and delete; the time. Out: records, responses.
Always: a commit that was acknowledged is found until it is replaced, deleted, or past its
retention.
Not here: who may commit (operations.py), topic ids and whether topics exist (broker/handlers).
"""

from collections.abc import Iterator

from barnabas.coordinators.groups.offsets.pending import PendingOffsets
from barnabas.coordinators.groups.records import (
    NO_EXPIRY,
    OffsetCommitValue,
    OffsetRecord,
    offset_value,
)
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code
from barnabas.wire.codec import by_position
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET = -1

Partitions = dict[int, OffsetCommitValue]
_answered = by_position(OffsetCommitResponsePartition)


class CommittedOffsets:
    """Offsets by group, topic and partition. Changed by `replay` alone."""

    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, Partitions]] = {}

    def replay(self, record: OffsetRecord) -> None:
        value = record.value
        if value is not None:
            try:
                self.by_group[record.group][record.topic][record.partition] = value
            except KeyError:
                topics = self.by_group.setdefault(record.group, {})
                topics.setdefault(record.topic, {})[record.partition] = value
            return
        topics = self.by_group.get(record.group, {})
        partitions = topics.get(record.topic, {})
        partitions.pop(record.partition, None)
        if not partitions:
            topics.pop(record.topic, None)
        if not topics:
            self.by_group.pop(record.group, None)

    def find(self, group: str, topic: str, partition: int) -> OffsetCommitValue | None:
        return self.by_group.get(group, {}).get(topic, {}).get(partition)

    def of_group(self, group: str) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        for topic, partitions in self.by_group.get(group, {}).items():
            for partition, value in partitions.items():
                yield topic, partition, value

    def group_tombstones(self, group: str) -> list[OffsetRecord]:
        return [
            OffsetRecord(group, topic, partition, None)
            for topic, partition, _ in self.of_group(group)
        ]

    def topic_tombstones(self, group: str, topic: str) -> list[OffsetRecord]:
        partitions = self.by_group.get(group, {}).get(topic, {})
        return [OffsetRecord(group, topic, partition, None) for partition in partitions]

    def count(self, group: str) -> int:
        return sum(len(partitions) for partitions in self.by_group.get(group, {}).values())

    def of_topic(self, topic: str, size: int) -> Iterator[list[OffsetRecord]]:
        """Tombstones for the topic in all groups, in slices of at most `size`."""
        groups = [group for group, topics in self.by_group.items() if topic in topics]
        records: list[OffsetRecord] = []
        for group in groups:
            records += self.topic_tombstones(group, topic)
            while len(records) >= size:
                yield records[:size]
                del records[:size]
        if records:
            yield records

    def expired(
        self,
        group: str,
        retention_ms: int,
        emptied_ms: int,
        subscribed: frozenset[str],
        wall_ms: int,
    ) -> Iterator[OffsetRecord]:
        """Tombstones for offsets past their retention. It begins at `emptied_ms`, or if that is -1
        at the commit; subscribed topics do not expire."""
        return (
            OffsetRecord(group, topic, partition, None)
            for topic, partition, value in self.of_group(group)
            if topic not in subscribed
            and _is_expired(
                value,
                emptied_ms if emptied_ms >= 0 else value.commit_timestamp,
                retention_ms,
                wall_ms,
            )
        )


def _is_expired(value: OffsetCommitValue, since_ms: int, retention_ms: int, wall_ms: int) -> bool:
    if value.expire_timestamp != NO_EXPIRY:  # an old client has sent a retention time
        return wall_ms >= value.expire_timestamp
    return wall_ms - since_ms >= retention_ms


def commit(
    request: OffsetCommitRequest, metadata_chars_max: int, now: Now
) -> tuple[list[OffsetRecord], OffsetCommitResponse]:
    """Each partition succeeds or fails on its own: its metadata may be too long."""
    records = []
    topics = []
    group, wall_ms = request.group_id, now.wall_ms
    expire = NO_EXPIRY
    if request.retention_time_ms != -1:
        expire = wall_ms + request.retention_time_ms
    for topic in request.topics:
        name = topic.name
        partitions = []
        for each in topic.partitions:
            index = each.partition_index
            metadata = each.committed_metadata or ""
            if len(metadata) > metadata_chars_max:
                partitions.append(_answered(index, Code.OFFSET_METADATA_TOO_LARGE))
                continue
            offset, epoch = each.committed_offset, each.committed_leader_epoch
            value = offset_value(offset, metadata, wall_ms, epoch, expire)
            records.append(OffsetRecord(group, name, index, value))
            partitions.append(_answered(index, 0))
        topics.append(
            OffsetCommitResponseTopic(name=name, topic_id=topic.topic_id, partitions=partitions)
        )
    return records, OffsetCommitResponse(topics=topics)


def fetch(
    offsets: CommittedOffsets,
    group: str,
    topics: list[OffsetFetchRequestTopics] | None,
    pending: PendingOffsets | None = None,
) -> list[OffsetFetchResponseTopics]:
    """One entry for every partition, -1 where nothing was committed. None: all partitions.

    `pending`: refuse offsets that a transaction may still change."""
    if pending:
        return [_stable(group, topic, pending) for topic in fetch(offsets, group, topics)]
    if topics is None:
        return [
            OffsetFetchResponseTopics(
                name=topic,
                partitions=[_fetched(index, value) for index, value in partitions.items()],
            )
            for topic, partitions in offsets.by_group.get(group, {}).items()
        ]
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                _fetched(index, offsets.find(group, topic.name, index))
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
    ]


def _stable(
    group: str, topic: OffsetFetchResponseTopics, pending: PendingOffsets
) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=each.partition_index,
                committed_offset=NO_OFFSET,
                metadata="",
                error_code=Code.UNSTABLE_OFFSET_COMMIT,
            )
            if pending.is_pending(group, topic.name, each.partition_index)
            else each
            for each in topic.partitions
        ],
    )


def _fetched(index: int, value: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    if value is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=Code.NONE
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=Code.NONE,
    )
