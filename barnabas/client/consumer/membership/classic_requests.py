"""The requests that a member of a classic group sends."""

from collections.abc import Mapping

from barnabas.client.consumer.membership.classic_protocol import PROTOCOL_TYPE
from barnabas.client.consumer.membership.membership import MemberTerms
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_REASON_LENGTH_MAX = 255


def join_request(
    terms: MemberTerms, member_id: str, metadata: Mapping[str, bytes], reason: str | None
) -> JoinGroupRequest:
    """`metadata`: by assignor."""
    return JoinGroupRequest(
        group_id=terms.group_id,
        session_timeout_ms=terms.session_timeout_ms,
        rebalance_timeout_ms=terms.poll_interval_ms_max,
        member_id=member_id,
        group_instance_id=terms.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=data) for name, data in metadata.items()
        ],
        reason=None if reason is None else reason[:_REASON_LENGTH_MAX],
    )


def sync_request(
    terms: MemberTerms,
    member_id: str,
    generation: int,
    protocol: str,
    assignments: list[SyncGroupRequestAssignment],
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=terms.group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=terms.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
        assignments=assignments,
    )


def heartbeat_request(terms: MemberTerms, member_id: str, generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=terms.group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=terms.instance_id,
    )


def leave_request(terms: MemberTerms, member_id: str, reason: str) -> LeaveGroupRequest:
    member = MemberIdentity(member_id=member_id, reason=reason[:_REASON_LENGTH_MAX])
    return LeaveGroupRequest(group_id=terms.group_id, members=[member])
