"""Makes responses that refuse a request, in the form of each API.

In: an error code, and what the response must repeat of the request. Out: a response.
Always: codes of the log are translated as Kafka translates them.
Not here: when a request is refused (classic/, consumer/, offsets/).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from barnabas.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from barnabas.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from barnabas.wire.messages.heartbeat import HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupResponse
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.offset_delete import OffsetDeleteResponse
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from barnabas.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

# Error codes of an append, and what Kafka answers to members and to committers for each.
_TO_MEMBERS = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.MESSAGE_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
    Code.RECORD_LIST_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
}
_NOT_WRITTEN = "the broker could not write the change to its log; try again"
_TO_COMMITTERS = _TO_MEMBERS | {
    Code.MESSAGE_TOO_LARGE: Code.INVALID_COMMIT_OFFSET_SIZE,
    Code.RECORD_LIST_TOO_LARGE: Code.INVALID_COMMIT_OFFSET_SIZE,
}
STREAMS_HEARTBEAT = 88  # its messages are imported with the first of them
_TO_COORDINATORS = {
    Code.COORDINATOR_NOT_AVAILABLE: Code.NOT_LEADER_OR_FOLLOWER,
    Code.COORDINATOR_LOAD_IN_PROGRESS: Code.NOT_LEADER_OR_FOLLOWER,
    Code.NOT_COORDINATOR: Code.NOT_LEADER_OR_FOLLOWER,
}


def not_of_kind(
    kind: str, group_id: str, found: str | None, code: Code = Code.GROUP_ID_NOT_FOUND
) -> InvalidRequest:
    """A request for one kind of group has found another kind; None: it has found no group."""
    name = repr(group_id[:300])
    if found is None:
        why = f"there is no {kind} group {name}"
    elif kind == "consumer" and found == "classic":
        why = f"group {name} uses the classic protocol; this request is of the consumer protocol"
    else:
        why = f"group {name} is a {found} group, not a {kind} group"
    return InvalidRequest(code, why)


def join_refused(code: Code, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, protocol_name="", leader="", member_id=member_id, members=[]
    )


def sync_refused(code: Code) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")


def consumer_refused(code: Code, why: str) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=why[:1_000], member_epoch=0, heartbeat_interval_ms=0
    )


def share_refused(code: Code, why: str) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        error_code=code, error_message=why[:1_000], member_epoch=0, heartbeat_interval_ms=0
    )


def streams_refused(code: Code, why: str) -> "StreamsGroupHeartbeatResponse":
    from barnabas.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

    return StreamsGroupHeartbeatResponse(
        error_code=code,
        error_message=why[:1_000],
        member_id="",
        member_epoch=0,
        heartbeat_interval_ms=0,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=[],
        endpoint_information_epoch=0,
    )


def commit_refused(
    topics: Iterable[OffsetCommitRequestTopic | OffsetCommitResponseTopic], code: Code
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def txn_commit_refused(
    topics: Iterable[TxnOffsetCommitRequestTopic | TxnOffsetCommitResponseTopic], code: Code
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def markers_refused(response: WriteTxnMarkersResponse, code: Code) -> WriteTxnMarkersResponse:
    """The transaction coordinator tries again after NOT_LEADER_OR_FOLLOWER, not after the codes
    that clients of a coordinator know."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=each.partition_index,
                                error_code=_TO_COORDINATORS.get(code, code),
                            )
                            for each in topic.partitions
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in response.markers
        ]
    )


def not_written(response: ProtocolMessage, code: Code) -> ProtocolMessage:
    """The answer instead of `response`, when its records could not be written."""
    to_members = _TO_MEMBERS.get(code, code)
    match response:
        case JoinGroupResponse():
            return join_refused(to_members, response.member_id)
        case SyncGroupResponse():
            return sync_refused(to_members)
        case ConsumerGroupHeartbeatResponse():
            return consumer_refused(to_members, _NOT_WRITTEN)
        case ShareGroupHeartbeatResponse():
            return share_refused(to_members, _NOT_WRITTEN)
        case AlterShareGroupOffsetsResponse():
            return AlterShareGroupOffsetsResponse(
                error_code=to_members, error_message=_NOT_WRITTEN, responses=[]
            )
        case DeleteShareGroupOffsetsResponse():
            return DeleteShareGroupOffsetsResponse(
                error_code=to_members, error_message=_NOT_WRITTEN, responses=[]
            )
        case HeartbeatResponse():
            return HeartbeatResponse(error_code=to_members)
        case LeaveGroupResponse():
            return LeaveGroupResponse(error_code=to_members)
        case OffsetCommitResponse():
            return commit_refused(response.topics, _TO_COMMITTERS.get(code, code))
        case TxnOffsetCommitResponse():
            return txn_commit_refused(response.topics, _TO_COMMITTERS.get(code, code))
        case WriteTxnMarkersResponse():
            return markers_refused(response, code)
        case OffsetDeleteResponse():
            return OffsetDeleteResponse(error_code=to_members, topics=[])
        case DeleteGroupsResponse():
            return DeleteGroupsResponse(
                results=[
                    DeletableGroupResult(group_id=result.group_id, error_code=to_members)
                    for result in response.results
                ]
            )
        case _ if response.api_key == STREAMS_HEARTBEAT:
            return streams_refused(to_members, _NOT_WRITTEN)
        case _:
            raise AssertionError(f"{type(response).__name__} has no records")
