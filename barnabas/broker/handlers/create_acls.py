"""CreateAcls: there is no authorizer, so each ACL is refused."""

from typing import TYPE_CHECKING

from barnabas.broker.handlers.describe_acls import NO_AUTHORIZER
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import RefusalsContext


def handle(broker: "RefusalsContext", request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=Code.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))
