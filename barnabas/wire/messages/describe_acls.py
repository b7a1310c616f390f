"""DescribeAcls: which ACLs there are."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message


@message(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest(ProtocolMessage):
    """Rules to look for; null matches any. v2: flexible. v3: users as resources."""

    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


class AclDescription(Struct):
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


class DescribeAclsResource(Struct):
    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = 3
    acls: list[AclDescription]


@message(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse(ProtocolMessage):
    """The rules that match, by resource."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    resources: list[DescribeAclsResource]
