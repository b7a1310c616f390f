"""What members of classic groups ask, with the values that a test cares about."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


def join_request(
    group: str = "g",
    member: str = "",
    metadata: bytes = b"",
    *,
    session_ms: int = 30_000,
    rebalance_ms: int = 60_000,
    kind: str = "consumer",
    protocols: Iterable[str] = ("range",),
    instance: str | None = None,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
    )


def sync_request(
    group: str,
    member: str,
    generation: int,
    shares: Mapping[str, bytes] = {},
    *,
    protocol: str | None = None,
) -> SyncGroupRequest:
    """`shares`: by member, from the one that leads."""
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        protocol_type=None if protocol is None else "consumer",
        protocol_name=protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=id_, assignment=share)
            for id_, share in shares.items()
        ],
    )


def commit_request(
    group: str,
    offsets: Mapping[int, int],
    *,
    topic: str = "t",
    topic_id: UUID = NO_TOPIC_ID,
    member: str = "",
    generation: int = -1,
    metadata: str | None = "",
) -> OffsetCommitRequest:
    """`offsets`: by partition of the one topic."""
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                    )
                    for partition, offset in offsets.items()
                ],
            )
        ],
    )


def committed_request(
    group: str,
    partitions: Iterable[int] = (0,),
    *,
    topic: str = "t",
    topic_id: UUID = NO_TOPIC_ID,
) -> OffsetFetchRequest:
    """What the group has committed for partitions of one topic."""
    wanted = OffsetFetchRequestTopics(
        name=topic, topic_id=topic_id, partition_indexes=list(partitions)
    )
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])])
