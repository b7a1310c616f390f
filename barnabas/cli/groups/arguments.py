"""Consumer groups as arguments, with completion in the shell."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas.cli.names import checked_name, complete_names, find_named
from barnabas.model.errors import Code

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.groups.report import GroupReport

F = TypeVar("F", bound=Callable[..., Any])


def _names(admin: "Admin") -> Iterable[str]:
    return (each.group for each in admin.groups())


def complete_group(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    return complete_names(ctx, begun, _names)


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
    return checked_name(ctx, group, "GROUP", "a group needs a name")


def find_group(admin: "Admin", group: str) -> "GroupReport":
    """The group, or an error with the nearest name there is."""
    find, missing = admin.group_report, Code.GROUP_ID_NOT_FOUND
    return find_named("group", group, find, missing, lambda: _names(admin))
