"""Consumer groups as arguments: found, and completed by the shell."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas.config.option import nearest
from barnabas.model.errors import Code, InvalidRequest, KafkaError

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.groups.report import GroupReport

F = TypeVar("F", bound=Callable[..., Any])
COMPLETION_MS = 1_000  # a shell waits for it


def complete_group(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Groups that are there, for the shell; none if that takes too long."""
    from barnabas.cli.options import client_config
    from barnabas.client.blocking.admin import Admin

    try:
        settings = {
            "bootstrap.servers": client_config(ctx).bootstrap_servers,
            "request.timeout.ms": str(COMPLETION_MS),
            "default.api.timeout.ms": str(COMPLETION_MS),
        }
        with Admin(settings) as admin:
            return [each.group for each in admin.groups() if each.group.startswith(begun)]
    except (click.ClickException, KafkaError, OSError):
        return []


def group_argument(command: F) -> F:
    """GROUP, one that has a name."""
    return click.argument("group", shell_complete=complete_group, callback=_check_name)(command)


def groups_argument(command: F) -> F:
    """GROUP..., each once however often it is named."""
    return click.argument(
        "groups",
        metavar="GROUP...",
        nargs=-1,
        required=True,
        shell_complete=complete_group,
        callback=lambda ctx, parameter, groups: tuple(
            dict.fromkeys(_check_name(ctx, parameter, group) for group in groups)
        ),
    )(command)


def _check_name(ctx: click.Context, parameter: click.Parameter, group: str) -> str:
    if not group:
        raise click.UsageError("a group needs a name", ctx)
    try:
        group.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"GROUP {ascii(group)[:100]}: not UTF-8", ctx) from None
    return group


def find_group(admin: "Admin", group: str) -> "GroupReport":
    """The group, or an error with the nearest name there is."""
    try:
        return admin.group_report(group)
    except InvalidRequest as problem:
        if problem.code is not Code.GROUP_ID_NOT_FOUND:
            raise
        hint = nearest(group, {each.group: None for each in admin.groups()})
        raise InvalidRequest(problem.code, f"there is no group {group!r}{hint}") from None
