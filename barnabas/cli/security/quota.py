"""`barnabas quota`: set, describe and delete limits of users, clients and addresses."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from barnabas.cli.command_group import NamedCommands
from barnabas.cli.options import cluster_options, open_admin
from barnabas.cli.render import output_option, render
from barnabas.client.admin.security import Quota
from barnabas.client.tables import Row
from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.quotas.entities import DEFAULT, QuotaEntity, entity_of
from barnabas.security.quotas.quota_limits import (
    OF_CLIENTS,
    QuotaKind,
    QuotaLimits,
    changed_settings,
)

F = TypeVar("F", bound=Callable[..., Any])
COLUMNS = ("user", "client_id", "ip", "quota", "limit")
IN_FORCE_COLUMNS = ("quota", "limit", "of", "shared_by")
_UNITS = {
    "": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000,
    "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30,
}  # fmt: skip
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kMG]i?|Ki|)B?(?:/s)?|([0-9]+(?:\.[0-9]+)?)%")


def entity_options(command: F) -> F:
    """--user, --client-id, --ip and their defaults; the command gets `entity`, by types."""

    def take(ctx: click.Context, parameter: click.Parameter, value: str | bool | None) -> None:
        if value in (None, False):
            return
        named: dict[str, str | None] = ctx.meta.setdefault("barnabas.entity", {})
        type_ = str(parameter.name).removesuffix("_default").replace("_", "-")
        if type_ in named:
            raise click.UsageError(f"give --{type_} or --{type_}-default, and only once")
        named[type_] = None if value is True else str(value)

    for name, what in (("ip", "address"), ("client-id", "client id"), ("user", "user")):
        default = click.option(
            f"--{name}-default", is_flag=True, expose_value=False, callback=take,
            help=f"For each {what} that has no limit of its own.",
        )  # fmt: skip
        own = click.option(
            f"--{name}", metavar="NAME" if name != "ip" else "ADDRESS", expose_value=False,
            callback=take, help=f"The {what}.",
        )  # fmt: skip
        command = own(default(command))
    return command


def _entity(ctx: click.Context) -> QuotaEntity:
    named: dict[str, str | None] = ctx.meta.get("barnabas.entity", {})
    if not named:
        raise click.UsageError(
            "say whose quota: --user NAME, --client-id NAME, both, or --ip ADDRESS;"
            " --user-default and the like are for all others"
        )
    try:
        return entity_of(named.items())
    except InvalidRequest as problem:
        raise click.UsageError(problem.detail) from None


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
@cluster_options
def command() -> None:
    """Set, describe and delete quotas: limits of users, client ids and addresses.

    Each limit is per broker. The most specific one applies: that of a user with a client id, of a
    user, of a client id, before the defaults.
    """


@command.command("set")
@entity_options
@click.argument("limits", metavar="QUOTA=LIMIT...", nargs=-1, required=True)
@cluster_options
@click.pass_context
def set_(ctx: click.Context, limits: tuple[str, ...]) -> None:
    """Set limits; others of the same user, client id or address stay.

    \b
    producer_byte_rate=10MB        bytes per second that may be produced (k, M, G, Ki, Mi, Gi)
    consumer_byte_rate=10MB        bytes per second that may be consumed
    request_percentage=50%         share of the broker's event loop; 100% is all of it
    controller_mutation_rate=5     partitions per second that may be created and deleted
    connection_creation_rate=20    new connections per second; only with --ip
    """
    entity = _entity(ctx)
    wanted: dict[str, float | None] = {}
    for text in limits:
        name, separator, number = text.partition("=")
        if not separator or name in wanted:
            raise click.UsageError(f"{text!r}: expected QUOTA=LIMIT, each quota once")
        wanted[name] = _parsed(name, number)
    try:
        changed_settings(entity, {}, wanted)
    except InvalidRequest as problem:
        kinds = [QuotaKind.CONNECTION] if entity.ip is not None else OF_CLIENTS
        known = ", ".join(kind.value for kind in kinds)
        raise click.UsageError(f"{problem.detail}; {entity} can have: {known}") from None
    with open_admin(ctx) as admin:
        admin.alter_quota(dict(entity.pairs()), wanted)
    for name, value in wanted.items():
        click.echo(f"{entity}: {name}={value:.15g}", err=True)


@command.command("describe")
@entity_options
@click.option(
    "--in-force",
    is_flag=True,
    help="Show the limits that apply to a client with this --user and --client-id, or --ip, and"
    " where they come from.",
)
@output_option
@cluster_options
@click.pass_context
def describe(ctx: click.Context, in_force: bool, output: str) -> None:
    """List all limits, or those of one user, client id or address."""
    named: dict[str, str | None] = ctx.meta.get("barnabas.entity", {})
    wanted = _entity(ctx) if named or in_force else None
    with open_admin(ctx) as admin:
        quotas = admin.quotas()
    if in_force and wanted is not None:
        render(_in_force(quotas, wanted), IN_FORCE_COLUMNS, output)
        return
    rows = [
        row
        for quota in quotas
        if wanted is None or all(quota.entity.get(t, "") == n for t, n in wanted.pairs())
        for row in _rows(quota)
    ]
    render(sorted(rows, key=lambda row: [str(row[column]) for column in COLUMNS]), COLUMNS, output)


@command.command("delete")
@entity_options
@click.argument("names", metavar="[QUOTA]...", nargs=-1)
@cluster_options
@click.pass_context
def delete(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Delete these limits of a user, client id or address; without QUOTA, all of them."""
    entity = _entity(ctx)
    pairs = dict(entity.pairs())
    with open_admin(ctx) as admin:
        present = next((each.limits for each in admin.quotas() if each.entity == pairs), {})
        missing = [name for name in names if name not in present]
        if missing or not present:
            what = f"no quota {missing[0]}" if missing else "no quota"
            has = f"; it has {', '.join(present)}" if present else ""
            raise InvalidRequest(Code.RESOURCE_NOT_FOUND, f"{entity} has {what}{has}")
        gone = names or tuple(present)
        admin.alter_quota(pairs, dict.fromkeys(gone))
    for name in gone:
        click.echo(f"{entity}: {name} deleted", err=True)


def _parsed(name: str, text: str) -> float:
    found = _NUMBER.fullmatch(text)
    if found is None or (found[3] is not None) != (text.endswith("%")):
        raise click.UsageError(f"{name}={text}: expected a number, as in 10MB, 512KiB, 50% or 2.5")
    if found[3] is not None:
        if name != QuotaKind.REQUEST.value:
            raise click.UsageError(f"{name}={text}: only {QuotaKind.REQUEST.value} is a percentage")
        return float(found[3])
    return float(found[1]) * _UNITS[found[2]]


def _rows(quota: Quota) -> list[Row]:
    entity = {
        type_.replace("-", "_"): "(default)" if name is None else name
        for type_, name in quota.entity.items()
    }
    return [
        {"user": "", "client_id": "", "ip": "", **entity, "quota": name, "limit": _number(limit)}
        for name, limit in sorted(quota.limits.items())
    ]


def _in_force(quotas: list[Quota], wanted: QuotaEntity) -> list[Row]:
    limits = QuotaLimits()
    for quota in quotas:
        known = {QuotaKind(name): value for name, value in quota.limits.items()}
        limits.replace(entity_of(quota.entity.items()), known)
    if wanted.ip is not None:
        found = {QuotaKind.CONNECTION: limits.find_address(wanted.ip)}
    else:
        user, client_id = wanted.user or DEFAULT, wanted.client_id or DEFAULT
        found = {kind: limits.find(kind, user, client_id) for kind in OF_CLIENTS}
    return [
        {
            "quota": kind.value,
            "limit": None if limit is None else _number(limit.value),
            "of": "no limit" if limit is None else str(limit.source),
            "shared_by": "" if limit is None else str(limit.shared_by),
        }
        for kind, limit in found.items()
    ]


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else value
