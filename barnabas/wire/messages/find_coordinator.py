"""FindCoordinator: finds coordinators."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message, since, until


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(ProtocolMessage):
    """Who coordinates a group or transaction.

    v1: by type. v3: flexible. v4: several keys at once. v6: share groups.
    """

    key: str = until(3, default="")
    key_type: Int8 = since(1, default=0)
    coordinator_keys: list[str] = since(4, default=[])


class Coordinator(Struct):
    key: str
    node_id: Int32
    host: str
    port: Int32
    error_code: Int16
    error_message: str | None = None


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(ProtocolMessage):
    """The coordinator's address. v1: throttle time, message. v3: flexible. v4: one per key."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = until(3, default=0)
    error_message: str | None = since(1, default="", last=3, ignorable=True)
    node_id: Int32 = until(3, default=0)
    host: str = until(3, default="")
    port: Int32 = until(3, default=0)
    coordinators: list[Coordinator] = since(4, default=[])
