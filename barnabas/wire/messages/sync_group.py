"""SyncGroup: distributes assignments."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message, since


class SyncGroupRequestAssignment(Struct):
    member_id: str
    assignment: bytes


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(ProtocolMessage):
    """The leader hands in assignments, a member asks for its own.

    v3: static membership. v4: flexible. v5: protocol.
    """

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = since(3, default=None)
    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment]


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(ProtocolMessage):
    """A member's assignment. v1: throttle time. v4: flexible. v5: protocol."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16
    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)
    assignment: bytes
