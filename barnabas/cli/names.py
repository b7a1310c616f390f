"""Names of things that a cluster has, as arguments: checked, completed by the shell, found.

In: what a user typed. Out: the name, or an error with the nearest name that exists.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import click

from barnabas.config.option import nearest
from barnabas.model.errors import Code, InvalidRequest, KafkaError

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin

T = TypeVar("T")
COMPLETION_MS = 1_000  # a shell waits for it


def complete_names(
    ctx: click.Context, begun: str, names: "Callable[[Admin], Iterable[str]]"
) -> list[str]:
    """The existing names, for completion; none if the request takes too long."""
    from barnabas.cli.options import client_settings
    from barnabas.client.blocking.admin import Admin

    try:
        settings = {
            **client_settings(ctx),
            "request.timeout.ms": str(COMPLETION_MS),
            "default.api.timeout.ms": str(COMPLETION_MS),
        }
        with Admin(settings) as admin:
            return [each for each in names(admin) if each.startswith(begun)]
    except (click.ClickException, KafkaError, OSError):
        return []


def complete_topic(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Topics; the broker's own only when their name was begun."""
    own = begun.startswith("_")
    return complete_names(
        ctx, begun, lambda admin: [t for t in sorted(admin.topics().topics) if own or t[:2] != "__"]
    )


def checked_name(ctx: click.Context, name: str, metavar: str, if_empty: str) -> str:
    if not name:
        raise click.UsageError(if_empty, ctx)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"{metavar} {ascii(name)[:100]}: not UTF-8", ctx) from None
    return name


def find_named(
    kind: str,
    name: str,
    find: Callable[[str], T],
    missing: Code,
    names: Callable[[], Iterable[str]],
) -> T:
    """What `find` finds; if it says `missing`, an error with the nearest of `names`."""
    try:
        return find(name)
    except InvalidRequest as problem:
        if problem.code is not missing:
            raise
        hint = nearest(name, dict.fromkeys(names()))
        raise InvalidRequest(missing, f"there is no {kind} {name!r}{hint}") from None
