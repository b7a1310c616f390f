"""DeleteAcls: removes ACLs."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


@message(api_key=31, versions="1-3", flexible="2+")
class DeleteAclsRequest(ProtocolMessage):
    """The rules to delete. v2: flexible. v3: users as resources."""

    filters: list[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16
    error_message: str | None = None
    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = 3
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


class DeleteAclsFilterResult(Struct):
    error_code: Int16
    error_message: str | None = None
    matching_acls: list[DeleteAclsMatchingAcl]


@message(api_key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse(ProtocolMessage):
    """The deleted rules, by filter."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult]
