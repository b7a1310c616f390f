"""DeleteAcls: deletes the access rules that match filters, and names them.

Always: all or nothing; a filter that is not valid keeps its error, and the others are used.
"""

from typing import TYPE_CHECKING

from barnabas.broker.handlers.describe_acls import NO_AUTHORIZER, FilterFields, filter_of
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.security.acl.rules import AclRule, AclRuleFilter


async def handle(broker: "Broker", request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    if broker.authorizer is None:
        refused = DeleteAclsFilterResult(
            error_code=Code.SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=[]
        )
        return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
    results: dict[int, DeleteAclsFilterResult] = {}
    valid: dict[int, AclRuleFilter] = {}
    for number, fields in enumerate(request.filters):
        try:
            values = [getattr(fields, each) for each in FilterFields._fields]
            valid[number] = filter_of(FilterFields(*values))
        except KafkaError as error:
            results[number] = _refusal(error)
    try:
        deleted = await broker.authorizer.delete(list(valid.values())) if valid else []
        for number, rules in zip(valid, deleted, strict=True):
            results[number] = DeleteAclsFilterResult(
                error_code=0, matching_acls=[_deleted(rule) for rule in rules]
            )
    except KafkaError as error:
        results.update((number, _refusal(error)) for number in valid)
    return DeleteAclsResponse(filter_results=[results[n] for n in range(len(request.filters))])


def _deleted(rule: "AclRule") -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=0,
        resource_type=rule.resource.type,
        resource_name=rule.resource.name,
        pattern_type=rule.resource.pattern,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )


def _refusal(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=error.code, error_message=error.detail, matching_acls=[]
    )
