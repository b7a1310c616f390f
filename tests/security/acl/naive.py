"""The decision written down as the sentences of Kafka's documentation, without any index."""

from collections.abc import Iterable

from barnabas.security.acl.rules import (
    AclOperation,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
)

_IMPLIED = {
    AclOperation.DESCRIBE: (
        AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}  # fmt: skip


def covers(rule: AclRule, type_: AclResourceType, name: str) -> bool:
    if rule.resource.type != type_:
        return False
    if rule.resource.pattern == PatternType.PREFIXED:
        return name[: len(rule.resource.name)] == rule.resource.name
    return rule.resource.name == "*" or rule.resource.name == name  # noqa: PLR1714


def naive_decision(
    rules: Iterable[AclRule],
    principal: str,
    host: str,
    operation: AclOperation,
    type_: AclResourceType,
    name: str,
    allow_without_rules: bool,
) -> bool:
    covering = [rule for rule in rules if covers(rule, type_, name)]
    if not covering:
        return allow_without_rules
    applying = [
        rule
        for rule in covering
        if rule.principal in (principal, "User:*") and rule.host in (host, "*")
    ]
    for rule in applying:
        if rule.permission == Permission.DENY and rule.operation in (operation, AclOperation.ALL):
            return False
    return any(
        rule.permission == Permission.ALLOW
        and (
            rule.operation in (operation, AclOperation.ALL)
            or rule.operation in _IMPLIED.get(operation, ())
        )
        for rule in applying
    )
