"""DescribeAcls: the access rules that match a filter, by resource."""

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.security.acl.rules import AclRuleFilter

NO_AUTHORIZER = "this broker has no authorizer: it has no ACLs, and every client may do everything"


def handle(broker: "Broker", request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    if broker.authorizer is None:
        return DescribeAclsResponse(
            error_code=Code.SECURITY_DISABLED, error_message=NO_AUTHORIZER, resources=[]
        )
    try:
        which = filter_of(FilterFields(*[getattr(request, each) for each in FilterFields._fields]))
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.detail, resources=[])
    resources: dict[tuple[object, ...], DescribeAclsResource] = {}
    for rule in broker.authorizer.rules(which):
        resource = resources.get(rule.resource)
        if resource is None:
            resource = resources[rule.resource] = DescribeAclsResource(
                resource_type=rule.resource.type,
                resource_name=rule.resource.name,
                pattern_type=rule.resource.pattern,
                acls=[],
            )
        resource.acls.append(
            AclDescription(
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
        )
    return DescribeAclsResponse(error_code=0, resources=list(resources.values()))


class FilterFields(NamedTuple):
    """The fields of a filter, as DescribeAcls and DeleteAcls have them."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def filter_of(fields: FilterFields) -> "AclRuleFilter":
    """Raises InvalidRequest if a field is unknown."""
    from barnabas.security.acl.rules import (
        AclOperation,
        AclResourceType,
        AclRuleFilter,
        PatternType,
        Permission,
        check_filter,
        from_number,
    )

    return check_filter(
        AclRuleFilter(
            from_number(AclResourceType, fields.resource_type_filter),
            fields.resource_name_filter,
            from_number(PatternType, fields.pattern_type_filter),
            fields.principal_filter,
            fields.host_filter,
            from_number(AclOperation, fields.operation),
            from_number(Permission, fields.permission_type),
        )
    )
