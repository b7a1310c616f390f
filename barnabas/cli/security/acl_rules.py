"""Access rules on the command line: from and to a cluster, and in files.

Always: what `export` writes, `apply` reads back.
"""

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.security.acl.decisions import AclDecisions
from barnabas.security.acl.explain import AclQuestion
from barnabas.security.acl.rules import (
    WILDCARD,
    AclOperation,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
    ResourcePattern,
    check_rule,
    from_word,
)
from barnabas.security.acl.text import parse_resource, parse_user, rule_command
from barnabas.security.principal import parse_principal, parse_principals

if TYPE_CHECKING:
    from barnabas.client.admin.security import Acl
    from barnabas.client.blocking.admin import Admin

_PRODUCER = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
_CONSUMER = (AclOperation.READ, AclOperation.DESCRIBE)
_COMMAND = "barnabas acl "


def rule_of(acl: "Acl") -> AclRule:
    return AclRule(
        ResourcePattern(
            from_word(AclResourceType, acl.resource), acl.name, from_word(PatternType, acl.pattern)
        ),
        acl.principal,
        acl.host,
        from_word(AclOperation, acl.operation),
        from_word(Permission, acl.permission),
    )


def acl_of(rule: AclRule) -> "Acl":
    from barnabas.client.admin.security import Acl

    resource = rule.resource
    return Acl(
        resource.type.name.lower(),
        resource.name,
        rule.principal,
        rule.operation.name.lower(),
        rule.permission.name.lower(),
        rule.host,
        resource.pattern.name.lower(),
    )


def fetched(admin: "Admin") -> list[AclRule]:
    return [rule_of(acl) for acl in admin.acls()]


def create(admin: "Admin", rules: Iterable[AclRule]) -> None:
    new = [acl_of(rule) for rule in rules]
    if new:
        admin.create_acls(new)


def deleted(
    admin: "Admin", rules: Iterable[AclRule], host: str | None, permission: Permission
) -> list[AclRule]:
    """Those of the cluster with the principal, operation and resource of one of `rules`."""
    from barnabas.client.admin.security import AclFilter

    gone = []
    for rule in rules:
        acl = acl_of(rule)
        which = AclFilter(
            acl.resource,
            acl.name,
            acl.principal,
            acl.operation,
            permission.name.lower(),
            host,
            acl.pattern,
        )
        gone += [rule_of(each) for each in admin.delete_acls(which)]
    return gone


def delete_one(admin: "Admin", rule: AclRule) -> None:
    deleted(admin, [rule], rule.host, rule.permission)


def selects(pattern: ResourcePattern, rule: AclRule, matching: bool) -> bool:
    if not matching:
        return rule.resource == pattern
    return rule.resource.type is pattern.type and rule.resource.covers(pattern.name)


def decisions(admin: "Admin") -> AclDecisions:
    """The rules of the cluster, with the super users if this client may see the settings."""
    rules = fetched(admin)
    super_users, everyone = "", "false"
    try:
        for each in admin.broker_options(admin.cluster().brokers[0].id):
            if each.name == "super.users":
                super_users = each.value or ""
            elif each.name == "allow.everyone.if.no.acl.found":
                everyone = each.value or "false"
    except KafkaError:
        pass
    return AclDecisions(parse_principals(super_users), everyone == "true", rules)


def granted(
    principal: str, role: str, resource: str, group: str | None, txn: str | None, host: str
) -> list[AclRule]:
    """What a producer, a consumer or an administrator needs."""
    where = parse_resource(resource)
    rights: list[tuple[ResourcePattern, AclOperation]] = []
    if role == "admin":
        rights.append((where, AclOperation.ALL))
    elif where.type is not AclResourceType.TOPIC:
        raise InvalidRequest(
            Code.INVALID_REQUEST, f"{resource!r}: a {role} is of a topic, such as topic:orders"
        )
    else:
        operations = _PRODUCER if role == "producer" else _CONSUMER
        rights += [(where, operation) for operation in operations]
    if group is not None:
        rights.append((parse_resource(f"group:{group}"), AclOperation.READ))
    if txn is not None:
        id_ = parse_resource(f"txn:{txn}")
        rights += [(id_, AclOperation.WRITE), (id_, AclOperation.DESCRIBE)]
    return [
        check_rule(AclRule(each, principal, host, operation, Permission.ALLOW))
        for each, operation in rights
    ]


def question(user: str, operation: str, resource: str, host: str) -> AclQuestion:
    where = parse_resource(resource, PatternType.LITERAL)
    return AclQuestion(
        parse_principal(parse_user(user)),
        host,
        from_word(AclOperation, operation),
        where.type,
        where.name,
    )


def line(rule: AclRule) -> str:
    """`allow alice read topic:orders`: the command that makes the rule, without its name."""
    return rule_command(rule).removeprefix(_COMMAND)


def read_lines(text: str, name: str) -> list[AclRule]:
    """Rules, each once; # begins a comment. The error names the line."""
    rules: dict[AclRule, None] = {}
    for number, words in _lines(text, name):
        try:
            for rule in _read_rule(words):
                rules[rule] = None
        except (InvalidRequest, ValueError) as problem:
            raise _at(name, number, problem) from None
    return list(rules)


def _read_rule(words: list[str]) -> list[AclRule]:
    host, pattern, rest = WILDCARD, None, []
    remaining = iter(words)
    for each in remaining:
        if each == "--host":
            host = next(remaining, "")
        elif each in ("--literal", "--prefix"):
            pattern = PatternType.LITERAL if each == "--literal" else PatternType.PREFIXED
        else:
            rest.append(each)
    if len(rest) != 4 or rest[0] not in ("allow", "deny") or not host:
        raise ValueError("expected allow|deny USER OPERATIONS RESOURCE [--host ADDRESS]")
    verb, user, operations, resource = rest
    return [
        check_rule(
            AclRule(
                parse_resource(resource, pattern),
                parse_user(user),
                host,
                from_word(AclOperation, operation),
                Permission.ALLOW if verb == "allow" else Permission.DENY,
            )
        )
        for operation in operations.split(",")
    ]


def read_expectations(text: str, name: str) -> list[tuple[bool, AclQuestion]]:
    found = []
    for number, words in _lines(text, name):
        try:
            if len(words) not in (4, 5) or words[0] not in ("allow", "deny"):
                raise ValueError("expected allow|deny USER OPERATION RESOURCE [HOST]")
            verb, user, operation, resource, host = (*words, "")[:5]
            found.append((verb == "allow", question(user, operation, resource, host)))
        except (InvalidRequest, ValueError) as problem:
            raise _at(name, number, problem) from None
    return found


def _lines(text: str, name: str) -> Iterable[tuple[int, list[str]]]:
    for number, each in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(each, comments=True)
        except ValueError as problem:
            raise _at(name, number, problem) from None
        if words:
            yield number, words


def _at(name: str, number: int, problem: Exception) -> InvalidRequest:
    detail = getattr(problem, "detail", str(problem))
    return InvalidRequest(Code.INVALID_REQUEST, f"{name}:{number}: {detail}")
