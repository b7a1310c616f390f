"""`barnabas acl`: change and list access rules, and explain their decisions."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from barnabas.cli import exits
from barnabas.cli.command_group import NamedCommands
from barnabas.cli.confirmation import confirm, require_answer, yes_option
from barnabas.cli.options import cluster_options, open_admin
from barnabas.cli.render import output_option, render
from barnabas.cli.security import acl_rules, acl_text
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.security.acl.decisions import AclDecisions
from barnabas.security.acl.explain import AclQuestion, explain
from barnabas.security.acl.rules import (
    WILDCARD,
    AclOperation,
    AclRule,
    PatternType,
    Permission,
    ResourcePattern,
    check_rule,
    from_word,
)
from barnabas.security.acl.text import parse_resource, parse_user

F = TypeVar("F", bound=Callable[..., Any])
ROLES = ("producer", "consumer", "admin")
LAST_DEFAULT = 10

host_option = click.option(
    "--host", default=WILDCARD, show_default=True, help="Only from this address."
)


def pattern_options(command: F) -> F:
    """--literal and --prefix; the command gets `pattern`."""
    literal = click.option(
        "--literal",
        "pattern",
        flag_value=PatternType.LITERAL.name,
        help="The name is meant literally, although it ends with *.",
    )
    prefix = click.option(
        "--prefix",
        "pattern",
        flag_value=PatternType.PREFIXED.name,
        help="The name is a prefix, as with a * at its end.",
    )
    return literal(prefix(command))


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
@cluster_options
def command() -> None:
    """Change and list access rules (ACLs), and explain their decisions.

    RESOURCE is topic:NAME, group:NAME, txn:ID or cluster. NAME* is every name with this prefix,
    * is every name.
    """


@command.command("allow")
@click.argument("user")
@click.argument("operations")
@click.argument("resource")
@host_option
@pattern_options
@cluster_options
@click.pass_context
def allow(ctx: click.Context, /, **arguments: Any) -> None:
    """Allow USER the OPERATIONS (read,write) on RESOURCE."""
    _add(ctx, _rules(Permission.ALLOW, **arguments))


@command.command("deny")
@click.argument("user")
@click.argument("operations")
@click.argument("resource")
@host_option
@pattern_options
@cluster_options
@click.pass_context
def deny(ctx: click.Context, /, **arguments: Any) -> None:
    """Deny USER the OPERATIONS on RESOURCE, whatever other rules allow."""
    _add(ctx, _rules(Permission.DENY, **arguments))


@command.command("grant")
@click.argument("user")
@click.argument("role", type=click.Choice(ROLES))
@click.argument("resource")
@click.option("--group", help="The consumer's group; NAME* is a prefix.")
@click.option("--txn", help="The producer's transactional id; ID* is a prefix.")
@host_option
@cluster_options
@click.pass_context
def grant(
    ctx: click.Context,
    user: str,
    role: str,
    resource: str,
    group: str | None,
    txn: str | None,
    host: str,
) -> None:
    """Allow USER all that a producer, a consumer or an administrator of RESOURCE needs."""
    if role == "consumer" and group is None:
        raise click.UsageError("a consumer needs a group: add --group NAME")
    try:
        rules = acl_rules.granted(parse_user(user), role, resource, group, txn, host)
    except InvalidRequest as problem:
        raise click.UsageError(problem.detail) from None
    _add(ctx, rules)


@command.command("revoke")
@click.argument("user")
@click.argument("operations")
@click.argument("resource")
@click.option("--host", default=None, help="Only rules for this address. [default: all rules]")
@click.option(
    "--allow", "permission", flag_value=Permission.ALLOW.name, help="Only rules that allow."
)
@click.option("--deny", "permission", flag_value=Permission.DENY.name, help="Only rules that deny.")
@pattern_options
@cluster_options
@click.pass_context
def revoke(
    ctx: click.Context, /, host: str | None, permission: str | None, **arguments: Any
) -> None:
    """Delete the rules of USER for exactly these OPERATIONS and this RESOURCE."""
    wanted = _rules(Permission.ALLOW, host=WILDCARD, **arguments)
    kept = Permission.ANY if permission is None else Permission[permission]
    with open_admin(ctx) as admin:
        gone = acl_rules.deleted(admin, wanted, host, kept)
    if not gone:
        raise InvalidRequest(
            Code.RESOURCE_NOT_FOUND,
            f"there is no such rule; list those of the user: barnabas acl ls --user"
            f" {arguments['user']}",
        )
    for rule in gone:
        click.echo(f"deleted: {rule}", err=True)


@command.command("ls")
@click.argument("resource", required=False)
@click.option("--user", default=None, help="Only rules of this user, and of all users (*).")
@click.option("--matching", is_flag=True, help="All rules that apply to RESOURCE.")
@output_option
@cluster_options
@click.pass_context
def list_(
    ctx: click.Context, resource: str | None, user: str | None, matching: bool, output: str
) -> None:
    """List rules: all, or those of RESOURCE."""
    pattern = None if resource is None else _resource(resource, None)
    with open_admin(ctx) as admin:
        rules = acl_rules.fetched(admin)
    principal = None if user is None else parse_user(user)
    rows = [
        acl_text.row(rule)
        for rule in sorted(rules)
        if principal in (None, rule.principal)
        and (pattern is None or acl_rules.selects(pattern, rule, matching))
    ]
    render(rows, acl_text.COLUMNS, output)


@command.command("explain")
@click.argument("user", required=False)
@click.argument("operation", required=False)
@click.argument("resource", required=False)
@click.option("--principal", help="The same as USER.")
@click.option("--operation", "operation_option", help="The same as OPERATION.")
@click.option("--topic", help="The same as RESOURCE topic:NAME.")
@click.option("--group", help="The same as RESOURCE group:NAME.")
@click.option("--host", default="", help="Decide as if the request came from this address.")
@click.option("--last", is_flag=True, help="Show the last requests that were denied.")
@click.option(
    "-n",
    "count",
    type=click.IntRange(1, 1000),
    default=LAST_DEFAULT,
    help="The number of requests to show.",
)
@output_option
@cluster_options
@click.pass_context
def explain_(
    ctx: click.Context,
    user: str | None,
    operation: str | None,
    resource: str | None,
    principal: str | None,
    operation_option: str | None,
    topic: str | None,
    group: str | None,
    host: str,
    last: bool,
    count: int,
    output: str,
) -> int:
    """Say whether USER may do OPERATION on RESOURCE, by which rule, and what would allow it.

    The exit code is 1 if it is denied.
    """
    user, operation = user or principal, operation or operation_option
    if topic is not None or group is not None:
        resource = f"topic:{topic}" if topic is not None else f"group:{group}"
    if last:
        with open_admin(ctx) as admin:
            denials = admin.denials(count)
            try:
                decisions = acl_rules.decisions(admin)
            except KafkaError:  # who may not list rules still sees its own denials
                decisions = None
        acl_text.show_denials(denials, decisions, output)
        return exits.OK
    if user is None or operation is None or resource is None:
        raise click.UsageError("give USER, OPERATION and RESOURCE, or --last")
    question = _question(user, operation, resource, host)
    with open_admin(ctx) as admin:
        found = explain(acl_rules.decisions(admin), question)
    acl_text.show_explanation(found, output)
    return exits.OK if found.allowed else exits.FAILURE


@command.command("check")
@click.argument("rules", metavar="FILE", type=click.File("r", encoding="utf-8"))
@output_option
@cluster_options
@click.pass_context
def check(ctx: click.Context, rules: Any, output: str) -> int:
    """Check decisions against a file: a line is `allow|deny USER OPERATION RESOURCE [HOST]`.

    The exit code is 1 if one differs.
    """
    expected = acl_rules.read_expectations(rules.read(), rules.name)
    with open_admin(ctx) as admin:
        decisions: AclDecisions = acl_rules.decisions(admin)
    rows = []
    for wanted, question in expected:
        found = explain(decisions, question)
        if found.allowed != wanted:
            rows.append(acl_text.difference(wanted, found))
    render(rows, acl_text.DIFFERENCES, output)
    click.echo(f"{len(expected) - len(rows)} of {len(expected)} as expected", err=True)
    return exits.FAILURE if rows else exits.OK


@command.command("export")
@cluster_options
@click.pass_context
def export(ctx: click.Context) -> None:
    """Print all rules as a file for `barnabas acl apply`."""
    with open_admin(ctx) as admin:
        rules = acl_rules.fetched(admin)
    for rule in sorted(rules):
        click.echo(acl_rules.line(rule))


@command.command("apply")
@click.argument("rules", metavar="FILE", type=click.File("r", encoding="utf-8"))
@click.option("--prune", is_flag=True, help="Delete rules that are not in the file.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@yes_option
@cluster_options
@click.pass_context
def apply(ctx: click.Context, rules: Any, prune: bool, dry_run: bool, yes: bool) -> None:
    """Add the rules of a file; with --prune, also delete all others."""
    wanted = acl_rules.read_lines(rules.read(), rules.name)
    with open_admin(ctx) as admin:
        present = acl_rules.fetched(admin)
        new = [rule for rule in wanted if rule not in present]
        extra = [rule for rule in sorted(present) if rule not in wanted] if prune else []
        for rule in new:
            click.echo(f"+ {acl_rules.line(rule)}")
        for rule in extra:
            click.echo(f"- {acl_rules.line(rule)}")
        if dry_run or not (new or extra):
            return
        if extra:
            require_answer(yes)
            confirm(f"Delete {len(extra)} rules", yes)
        acl_rules.create(admin, new)  # first: no one loses a right that the file gives
        for rule in extra:
            acl_rules.delete_one(admin, rule)


def _rules(
    permission: Permission,
    user: str,
    operations: str,
    resource: str,
    host: str,
    pattern: str | None,
) -> list[AclRule]:
    where = _resource(resource, pattern)
    try:
        return [
            check_rule(
                AclRule(where, parse_user(user), host, from_word(AclOperation, each), permission)
            )
            for each in operations.split(",")
        ]
    except InvalidRequest as problem:
        raise click.UsageError(problem.detail) from None


def _resource(text: str, pattern: str | None) -> ResourcePattern:
    try:
        return parse_resource(text, None if pattern is None else PatternType[pattern])
    except InvalidRequest as problem:
        raise click.UsageError(problem.detail) from None


def _question(user: str, operation: str, resource: str, host: str) -> AclQuestion:
    try:
        return acl_rules.question(user, operation, resource, host)
    except (InvalidRequest, ValueError) as problem:
        raise click.UsageError(getattr(problem, "detail", str(problem))) from None


def _add(ctx: click.Context, rules: Iterable[AclRule]) -> None:
    new = list(rules)
    with open_admin(ctx) as admin:
        acl_rules.create(admin, new)
    for rule in new:
        click.echo(str(rule), err=True)
