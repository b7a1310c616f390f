"""CreateAcls: adds access rules. A rule that exists already is added with success, too.

Always: a rule that is refused does not keep the others from being added.
"""

from typing import TYPE_CHECKING

from barnabas.broker.handlers.describe_acls import NO_AUTHORIZER
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.security.acl.rules import AclRule


async def handle(broker: "Broker", request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    if broker.authorizer is None:
        refused = AclCreationResult(error_code=Code.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
        return CreateAclsResponse(results=[refused] * len(request.creations))
    results = [AclCreationResult(error_code=0) for _ in request.creations]
    valid: dict[int, AclRule] = {}
    for number, creation in enumerate(request.creations):
        try:
            valid[number] = _rule(creation)
        except KafkaError as error:
            results[number] = _refusal(error)
    try:
        if valid:
            await broker.authorizer.add(valid.values())
    except KafkaError as error:
        for number in valid:
            results[number] = _refusal(error)
    return CreateAclsResponse(results=results)


def _rule(creation: AclCreation) -> "AclRule":
    from barnabas.security.acl.rule_nodes import pattern_path
    from barnabas.security.acl.rules import (
        AclOperation,
        AclResourceType,
        AclRule,
        PatternType,
        Permission,
        ResourcePattern,
        check_rule,
        from_number,
    )

    pattern = ResourcePattern(
        from_number(AclResourceType, creation.resource_type),
        creation.resource_name,
        from_number(PatternType, creation.resource_pattern_type),
    )
    rule = AclRule(
        pattern,
        creation.principal,
        creation.host,
        from_number(AclOperation, creation.operation),
        from_number(Permission, creation.permission_type),
    )
    check_rule(rule)
    pattern_path(pattern)  # refuses names that the keeper cannot store
    return rule


def _refusal(error: KafkaError) -> AclCreationResult:
    return AclCreationResult(error_code=error.code, error_message=error.detail)
