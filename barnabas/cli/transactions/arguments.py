"""Transactional ids as arguments, with completion in the shell."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas.cli.names import checked_name, complete_names, find_named
from barnabas.model.errors import Code

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.transactions.report import TransactionDescription

F = TypeVar("F", bound=Callable[..., Any])


def _ids(admin: "Admin") -> Iterable[str]:
    return (each.transactional_id for each in admin.list_transactions())


def complete_id(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    return complete_names(ctx, begun, _ids)


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
    return checked_name(ctx, id_, "ID", "a transactional id is not empty")


def find_transaction(admin: "Admin", id_: str) -> "TransactionDescription":
    """The transactional id, or an error with the nearest there is."""
    missing = Code.TRANSACTIONAL_ID_NOT_FOUND
    find = admin.describe_transaction
    return find_named("transactional id", id_, find, missing, lambda: _ids(admin))
