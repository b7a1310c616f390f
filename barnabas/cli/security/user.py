"""`barnabas user`: create, change the password, list and delete users of SCRAM."""

from typing import Any

import click

from barnabas.cli.command_group import NamedCommands
from barnabas.cli.confirmation import confirm, require_answer, yes_option
from barnabas.cli.options import cluster_options, open_admin
from barnabas.cli.render import output_option, render
from barnabas.cli.security.passwords import password_from, password_options
from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.sasl.credentials import ITERATIONS_MAX, ITERATIONS_MIN
from barnabas.security.sasl.mechanism import SCRAMS

_DIGEST = "barnabas.zookeeper.digest"

mechanism_option = click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    type=click.Choice(SCRAMS),
    multiple=True,
    help="Only for this mechanism. [default: both]",
)
iterations_option = click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    show_default=True,
    help="Rounds of hashing: more of them make a stored password harder to guess.",
)


def where_options(command: Any) -> Any:
    """--data and --zookeeper: without a broker."""
    for option in (
        click.option(
            "--zookeeper",
            metavar="HOST:PORT,...",
            help="Change this ZooKeeper directly, without a broker.",
        ),
        click.option(
            "--zookeeper-digest-file",
            type=click.Path(exists=True, dir_okay=False),
            help="A file with USER:PASSWORD at ZooKeeper.",
            expose_value=False,
            callback=lambda ctx, parameter, path: ctx.meta.__setitem__(_DIGEST, path),
        ),
        click.option(
            "--data",
            metavar="DIR",
            help="Change this data directory, while no broker uses it: for the first user.",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
@cluster_options
def command() -> None:
    """Create, list and delete users of SCRAM, and change their passwords."""


@command.command("create")
@click.argument("user")
@mechanism_option
@iterations_option
@password_options
@where_options
@cluster_options
@click.pass_context
def create(ctx: click.Context, /, user: str, **options: Any) -> None:
    """Create a user. The command asks for the password, reads it from a file, or generates it."""
    _set_password(ctx, user, is_new=True, **options)


@command.command("passwd")
@click.argument("user")
@mechanism_option
@iterations_option
@password_options
@where_options
@cluster_options
@click.pass_context
def passwd(ctx: click.Context, /, user: str, **options: Any) -> None:
    """Change the password of a user. Open connections stay open."""
    _set_password(ctx, user, is_new=False, **options)


@command.command("ls")
@where_options
@output_option
@cluster_options
@click.pass_context
def list_(ctx: click.Context, data: str | None, zookeeper: str | None, output: str) -> None:
    """List users, with their mechanisms and iterations."""
    found = _users(ctx, data, zookeeper)
    rows = [
        {"user": user, "mechanism": mechanism, "iterations": iterations}
        for user, mechanisms in sorted(found.items())
        for mechanism, iterations in sorted(mechanisms.items())
    ]
    render(rows, ("user", "mechanism", "iterations"), output)


@command.command("delete")
@click.argument("user")
@mechanism_option
@where_options
@yes_option
@cluster_options
@click.pass_context
def delete(
    ctx: click.Context,
    user: str,
    mechanisms: tuple[str, ...],
    data: str | None,
    zookeeper: str | None,
    yes: bool,
) -> None:
    """Delete a user: it cannot log in again. Open connections stay open."""
    require_answer(yes)
    confirm(f"Delete user {user}", yes)
    if data is None and zookeeper is None:
        with open_admin(ctx) as admin:
            admin.delete_user(user, mechanisms=mechanisms)
    else:
        from barnabas.cli.security import stored_users

        with _stored(data, zookeeper) as keeper:
            stored_users.delete(keeper, user, mechanisms or SCRAMS)
    click.echo(f"user {user} deleted", err=True)


def _set_password(
    ctx: click.Context,
    user: str,
    *,
    is_new: bool,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: str | None,
    password_stdin: bool,
    generate: bool,
    data: str | None,
    zookeeper: str | None,
) -> None:
    if not user or "\0" in user:
        raise click.UsageError("the name of a user is not empty, and has no NUL")
    chosen = mechanisms or SCRAMS
    if (user in _users(ctx, data, zookeeper)) is is_new:
        raise InvalidRequest(
            Code.DUPLICATE_RESOURCE if is_new else Code.RESOURCE_NOT_FOUND,
            f"user {user!r} exists: use `barnabas user passwd`"
            if is_new
            else f"there is no user {user!r}: use `barnabas user create`",
        )
    password = password_from(user, password_file, password_stdin, generate)
    if data is None and zookeeper is None:
        with open_admin(ctx) as admin:
            admin.set_password(user, password, mechanisms=chosen, iterations=iterations)
    else:
        from barnabas.cli.security import stored_users

        with _stored(data, zookeeper) as keeper:
            stored_users.set_password(keeper, user, password, chosen, iterations)
    if generate:
        click.echo(password)
    click.echo(f"user {user} {'created' if is_new else 'has a new password'}", err=True)


def _users(
    ctx: click.Context, data: str | None, zookeeper: str | None
) -> dict[str, dict[str, int]]:
    if data is None and zookeeper is None:
        with open_admin(ctx) as admin:
            return {each.name: each.mechanisms for each in admin.users()}
    from barnabas.cli.security import stored_users

    with _stored(data, zookeeper) as keeper:
        return stored_users.users(keeper)


def _stored(data: str | None, zookeeper: str | None) -> Any:
    from barnabas.cli.security import stored_users

    if data is not None and zookeeper is not None:
        raise click.UsageError("--data and --zookeeper exclude each other")
    return stored_users.opened(data, zookeeper, click.get_current_context().meta.get(_DIGEST))
