"""Heartbeat: keeps a membership alive."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, message, since


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(ProtocolMessage):
    """A member says it is alive. v3: static membership. v4: flexible."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = since(3, default=None)


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(ProtocolMessage):
    """Whether to go on or to rejoin. v1: throttle time. v4: flexible."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16
