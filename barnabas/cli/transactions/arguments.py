"""Transactional ids as arguments, with completion in the shell."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas.cli.groups.arguments import COMPLETION_MS
from barnabas.config.option import nearest
from barnabas.model.errors import Code, InvalidRequest, KafkaError

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.transactions.report import TransactionDescription

F = TypeVar("F", bound=Callable[..., Any])


def complete_id(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """The existing ids, for completion; none if the request takes too long."""
    from barnabas.cli.options import client_config
    from barnabas.client.blocking.admin import Admin

    try:
        settings = {
            "bootstrap.servers": client_config(ctx).bootstrap_servers,
            "request.timeout.ms": str(COMPLETION_MS),
            "default.api.timeout.ms": str(COMPLETION_MS),
        }
        with Admin(settings) as admin:
            ids = [each.transactional_id for each in admin.list_transactions()]
        return [each for each in ids if each.startswith(begun)]
    except (click.ClickException, KafkaError, OSError):
        return []


def id_argument(*, required: bool = True) -> Callable[[F], F]:
    """ID, a transactional id."""
    return click.argument(
        "transactional_id",
        metavar="ID" if required else "[ID]",
        required=required,
        shell_complete=complete_id,
        callback=_check_id,
    )


def _check_id(ctx: click.Context, parameter: click.Parameter, id_: str | None) -> str | None:
    if id_ is None:
        return None
    if not id_:
        raise click.UsageError("a transactional id is not empty", ctx)
    try:
        id_.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"ID {ascii(id_)[:100]}: not UTF-8", ctx) from None
    return id_


def find_transaction(admin: "Admin", id_: str) -> "TransactionDescription":
    """The transactional id, or an error with the nearest there is."""
    try:
        return admin.describe_transaction(id_)
    except InvalidRequest as problem:
        if problem.code is not Code.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        hint = nearest(id_, {each.transactional_id: None for each in admin.list_transactions()})
        raise InvalidRequest(problem.code, f"there is no transactional id {id_!r}{hint}") from None
