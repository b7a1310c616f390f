"""Access rules and decisions as text for people, and as rows for scripts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.render import chosen_output, render, write_document
from barnabas.security.acl.decisions import AclDecisions
from barnabas.security.acl.explain import AclExplanation, AclQuestion, explain
from barnabas.security.acl.rules import AclOperation, AclResourceType, AclRule, from_word
from barnabas.security.acl.text import (
    operation_text,
    resource_text,
    rule_command,
    user_text,
)
from barnabas.security.principal import parse_principal

if TYPE_CHECKING:
    from barnabas.client.admin.security import DeniedRequest

COLUMNS = ("permission", "user", "operation", "resource", "host")
DIFFERENCES = ("expected", "found", "user", "operation", "resource", "reason")
_DENIALS = ("at", "user", "operation", "resource", "host", "api", "client", "now")


def row(rule: AclRule) -> dict[str, Any]:
    return {
        "permission": rule.permission.name.lower(),
        "user": user_text(rule.principal),
        "operation": operation_text(rule.operation),
        "resource": resource_text(rule.resource),
        "host": rule.host,
        "pattern": rule.resource.pattern.name.lower(),
        "principal": rule.principal,
    }


def document(found: AclExplanation) -> dict[str, Any]:
    return {
        "question": str(found.question),
        "allowed": found.allowed,
        "reason": found.reason,
        "rule": None if found.rule is None else str(found.rule),
        "near_misses": [
            {"rule": str(each.rule), "field": each.field, "reason": each.reason}
            for each in found.near_misses
        ],
        "command": found.command,
    }


def show_explanation(found: AclExplanation, output: str) -> None:
    output = chosen_output(output)
    if output != "table":
        write_document(document(found), output)
        return
    click.echo(f"{'ALLOWED' if found.allowed else 'DENIED'}: {found.question}")
    click.echo(f"  because {found.reason}")
    if found.rule is not None:
        click.echo(f"  rule: {found.rule}")
    for miss in found.near_misses:
        click.echo(f"  nearly ({miss.field}): {miss.rule}")
        click.echo(f"    {miss.reason}")
    if found.command:
        click.echo(f"  to allow it: {found.command}")
        if found.rule is None and "--host" in found.command:
            click.echo("    (without --host: from every address)")


def show_denials(
    denials: "Sequence[DeniedRequest]", decisions: AclDecisions | None, output: str
) -> None:
    """With what the rules say now, because they may have changed since."""
    rows = []
    for each in denials:
        question = AclQuestion(
            parse_principal(each.principal),
            each.host,
            from_word(AclOperation, each.operation),
            from_word(AclResourceType, each.resource),
            each.name,
        )
        now = ""
        if decisions is not None:
            found = explain(decisions, question)
            now = "allowed" if found.allowed else found.command
        at = datetime.fromtimestamp(each.at_ms / 1000, UTC)
        rows.append(
            {
                "at": at.strftime("%Y-%m-%d %H:%M:%SZ"),
                "user": user_text(each.principal),
                "operation": each.operation,
                "resource": f"{each.resource}:{each.name}",
                "host": each.host,
                "api": each.api,
                "client": each.client_id,
                "rule": each.rule,
                "broker": each.broker,
                "now": now,
            }
        )
    render(rows, _DENIALS, output)


def difference(expected: bool, found: AclExplanation) -> dict[str, Any]:
    question = found.question
    return {
        "expected": "allow" if expected else "deny",
        "found": "allow" if found.allowed else "deny",
        "user": user_text(str(question.principal)),
        "operation": operation_text(question.operation),
        "resource": f"{question.type.name.lower()}:{question.name}",
        "reason": rule_command(found.rule) if found.rule is not None else found.reason,
    }
