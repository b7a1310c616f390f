"""CreateAcls: adds ACLs."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message


class AclCreation(Struct):
    resource_type: Int8
    resource_name: str
    resource_pattern_type: Int8 = 3
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@message(api_key=30, versions="1-3", flexible="2+")
class CreateAclsRequest(ProtocolMessage):
    """Rules to add. v2: flexible. v3: users as resources."""

    creations: list[AclCreation]


class AclCreationResult(Struct):
    error_code: Int16
    error_message: str | None = None


@message(api_key=30, versions="1-3", flexible="2+")
class CreateAclsResponse(ProtocolMessage):
    """Whether each was added, in the order of the request."""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult]
