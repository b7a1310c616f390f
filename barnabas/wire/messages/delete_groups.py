"""DeleteGroups: deletes groups."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest(ProtocolMessage):
    """Groups to delete. v2: flexible."""

    groups_names: list[str]


class DeletableGroupResult(Struct):
    group_id: str
    error_code: Int16


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse(ProtocolMessage):
    """Which groups were deleted. v2: flexible."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]
