"""DescribeAcls: there is no authorizer, so there are no ACLs to describe."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from barnabas.broker.context import RefusalsContext

NO_AUTHORIZER = "this broker has no authorizer: it has no ACLs, and every client may do everything"


def handle(
    broker: "RefusalsContext", request: DescribeAclsRequest, call: Call
) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=Code.SECURITY_DISABLED, error_message=NO_AUTHORIZER, resources=[]
    )
