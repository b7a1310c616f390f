"""DescribeGroups: state of classic groups."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message, since


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(ProtocolMessage):
    """State of groups. v3: allowed operations. v5: flexible. v6: as v5."""

    groups: list[str]
    include_authorized_operations: bool = since(3, default=False)


class DescribedGroupMember(Struct):
    member_id: str
    group_instance_id: str | None = since(4, default=None, ignorable=True)
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(Struct):
    error_code: Int16
    error_message: str | None = since(6, default=None)
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: list[DescribedGroupMember]
    authorized_operations: Int32 = since(3, default=-0x8000_0000)


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(ProtocolMessage):
    """State and members of groups.

    v1: throttle time. v3: allowed operations. v4: static membership. v5: flexible.
    v6: error messages.
    """

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    groups: list[DescribedGroup]
