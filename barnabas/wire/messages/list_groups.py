"""ListGroups: groups of a coordinator."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message, since


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(ProtocolMessage):
    """Requests the groups of a coordinator. v3: flexible. v4: by state. v5: by type."""

    states_filter: list[str] = since(4, default=[])
    types_filter: list[str] = since(5, default=[])


class ListedGroup(Struct):
    group_id: str
    protocol_type: str
    group_state: str = since(4, default="", ignorable=True)
    group_type: str = since(5, default="", ignorable=True)


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(ProtocolMessage):
    """Groups of this coordinator. v1: throttle time. v3: flexible. v4: states. v5: types."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16
    groups: list[ListedGroup]
