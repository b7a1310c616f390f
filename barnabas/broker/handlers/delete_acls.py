"""DeleteAcls: there is no authorizer, so each filter is refused."""

from typing import TYPE_CHECKING

from barnabas.broker.handlers.describe_acls import NO_AUTHORIZER
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import RefusalsContext


def handle(broker: "RefusalsContext", request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(
        error_code=Code.SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=[]
    )
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
