"""Why a principal may, or may not, do an operation on a resource.

In: the rules and one question. Out: the verdict, the rule that decides, rules that nearly apply
with the field that failed, and the narrowest command that would allow it.
Always: the verdict is that of decisions.py. It looks at every rule: for people, not for requests.
"""

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.security.acl.decisions import AclDecisions
from barnabas.security.acl.hosts import host_text
from barnabas.security.acl.index import rule_mask
from barnabas.security.acl.rules import (
    ANY_USER,
    OPERATIONS_OF,
    WILDCARD,
    AclOperation,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
    ResourcePattern,
    word,
)
from barnabas.security.acl.text import rule_command
from barnabas.security.principal import Principal

NEAR_MISSES_MAX = 10


class AclQuestion(NamedTuple):
    """May this principal, from this host, do this to this resource?"""

    principal: Principal
    host: str
    operation: AclOperation
    type: AclResourceType
    name: str

    def __str__(self) -> str:
        resource = ResourcePattern(self.type, self.name)
        place = f" from host {self.host}" if self.host else ""
        return f"{self.principal} {word(self.operation)} on {resource}{place}"


class NearMiss(NamedTuple):
    """A rule that would allow it if one field were different."""

    rule: AclRule
    field: str
    reason: str


class AclExplanation(NamedTuple):
    question: AclQuestion
    allowed: bool
    reason: str
    rule: AclRule | None = None
    """The rule that decides; None: a super user, or no rule applies."""
    near_misses: tuple[NearMiss, ...] = ()
    command: str = ""
    """What would allow it; empty if it is allowed."""


def explain(decisions: AclDecisions, question: AclQuestion) -> AclExplanation:
    principal, host, operation, type_, name = question
    question = question._replace(host=host_text(host))
    if decisions.is_super(principal):
        return AclExplanation(question, True, f"{principal} is in super.users")
    if operation not in OPERATIONS_OF[type_] and operation is not AclOperation.ALL:
        of_type = ", ".join(word(each) for each in OPERATIONS_OF[type_])
        hint = f" (a {word(type_)} has the operations {of_type})"
    else:
        hint = ""
    if not decisions.loaded:
        return AclExplanation(question, False, "this broker has no access to the rules now")
    rule = deciding_rule(decisions, question)
    if rule is not None and rule.permission is Permission.ALLOW:
        return AclExplanation(question, True, f"a rule allows it{hint}", rule)
    if rule is not None:
        command = rule_command(rule, revoke=True)
        return AclExplanation(question, False, "a rule denies it", rule, command=command)
    near = sorted(_near_misses(decisions, question), key=lambda each: _FIELDS.index(each.field))
    needed = AclRule(
        ResourcePattern(type_, name),
        str(principal),
        question.host if host else WILDCARD,
        operation,
        Permission.ALLOW,
    )
    covered = next(iter(decisions.index.covering_rules(type_, name)), None) is not None
    if covered:
        reason = "rules cover this resource, but none of them allows it"
    elif decisions.allow_without_rules:
        reason = "no rule covers this resource, and allow.everyone.if.no.acl.found is true"
        return AclExplanation(question, True, reason)
    else:
        reason = "no rule covers this resource"
    return AclExplanation(
        question,
        False,
        reason + hint,
        None,
        tuple(near[:NEAR_MISSES_MAX]),
        rule_command(needed),
    )


def deciding_rule(decisions: AclDecisions, question: AclQuestion) -> AclRule | None:
    """One that denies, else one that allows, else None. Of several, the most specific resource."""
    allowing = None
    principal = str(question.principal)
    for rule in decisions.index.covering_rules(question.type, question.name):
        if (
            rule.principal in (principal, ANY_USER)
            and host_text(rule.host) in (question.host, WILDCARD)
            and rule_mask(rule) >> question.operation & 1
        ):
            if rule.permission is Permission.DENY:
                return rule
            allowing = allowing or rule
    return allowing


_FIELDS = ("host", "pattern", "name", "principal", "operation")


def _near_misses(decisions: AclDecisions, question: AclQuestion) -> Iterator[NearMiss]:
    """Rules that allow, and of which exactly one field does not apply."""
    for rule in decisions.index:
        if rule.resource.type is not question.type or rule.permission is not Permission.ALLOW:
            continue
        problems = list(_problems(rule, question))
        if len(problems) == 1 and (field := problems[0])[1]:
            yield NearMiss(rule, *field)


def _problems(rule: AclRule, question: AclQuestion) -> Iterator[tuple[str, str]]:
    """The fields that do not apply; a field that is not even close has no reason."""
    principal = str(question.principal)
    if rule.principal not in (principal, ANY_USER):
        close = rule.principal.casefold().strip() == principal.casefold()
        yield "principal", f"it is for {rule.principal}, not {principal}" if close else ""
    if host_text(rule.host) not in (question.host, WILDCARD):
        yield "host", f"it is for host {rule.host}, not {question.host}"
    if not rule_mask(rule) >> question.operation & 1:
        yield "operation", f"it allows {word(rule.operation)}, not {word(question.operation)}"
    resource, name = rule.resource, question.name
    if resource.covers(name):
        return
    prefixed = resource.pattern is PatternType.PREFIXED
    if not prefixed and resource.name and name.startswith(resource.name):
        yield "pattern", f"its name is literal; as a prefix it would cover {name}"
    elif not prefixed and resource.name.endswith(WILDCARD) and name.startswith(resource.name[:-1]):
        yield "pattern", f"the * in {resource.name} is literal; use a prefix instead"
    elif resource._replace(name=resource.name.casefold()).covers(name.casefold()):
        yield "name", f"{resource.name} differs from {name} in case"
    else:
        yield "name", ""
