"""JoinGroup: joins a group."""

from barnabas.wire.codec import (
    Int16,
    Int32,
    ProtocolMessage,
    Struct,
    message,
    nullable_since,
    since,
)


class JoinGroupRequestProtocol(Struct):
    name: str
    metadata: bytes


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(ProtocolMessage):
    """A member joins or rejoins its group.

    v1: rebalance timeout. v5: static membership. v6: flexible. v8: reason.
    """

    group_id: str
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)
    member_id: str
    group_instance_id: str | None = since(5, default=None)
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    reason: str | None = since(8, default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: str
    group_instance_id: str | None = since(5, default=None, ignorable=True)
    metadata: bytes


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(ProtocolMessage):
    """The generation, and for the leader its members.

    v2: throttle time. v5: static membership. v6: flexible. v7: protocol type.
    v9: is the assignment to be skipped.
    """

    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    error_code: Int16
    generation_id: Int32 = -1
    protocol_type: str | None = since(7, default=None, ignorable=True)
    protocol_name: str | None = nullable_since(7)
    leader: str
    skip_assignment: bool = since(9, default=False)
    member_id: str
    members: list[JoinGroupResponseMember]
