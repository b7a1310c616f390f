"""LeaveGroup: leaves a group."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message, since, until


class MemberIdentity(Struct):
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = since(5, default=None, ignorable=True)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(ProtocolMessage):
    """Members leave. v3: several at once, static membership. v4: flexible. v5: reason."""

    group_id: str
    member_id: str = until(2, default="")
    members: list[MemberIdentity] = since(3, default=[])


class MemberResponse(Struct):
    member_id: str
    group_instance_id: str | None = None
    error_code: Int16


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(ProtocolMessage):
    """The result of leaving. v1: throttle time. v3: one result per member. v4: flexible."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16
    members: list[MemberResponse] = since(3, default=[])
