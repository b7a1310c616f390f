"""`barnabas console`: pages about a cluster, in a browser."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.looking.sql import REGISTRY_WORKER
from barnabas.cli.options import client_config, client_settings, cluster_options
from barnabas.cli.up import HostAndPort
from barnabas.config.kinds import Address, parse_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.run.roster import RosterEntry

TOKEN_VARIABLE = "BARNABAS_CONSOLE_TOKEN"  # noqa: S105 - a name, not a token
DEFAULT_LISTEN = "127.0.0.1:8080"
_COUNT_S = 15.0  # between two looks at a table
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command()
@click.option(
    "--listen",
    type=HostAndPort(),
    default=DEFAULT_LISTEN,
    show_default=True,
    help="The address of the pages; port 0 picks a free port.",
)
@click.option(
    "--token",
    "with_token",
    is_flag=True,
    help=f"Require a token: ${TOKEN_VARIABLE}, or a new one, which is printed with the address. "
    "Required for an address that other machines reach.",
)
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="A name under which browsers reach this console, such as that of a proxy.",
)
@click.option(
    "--users",
    "by_user",
    is_flag=True,
    help="Everyone logs in as a user of the cluster (SCRAM or PLAIN), and has the rights of that "
    "user. Requires -X security.protocol=SASL_SSL or SASL_PLAINTEXT, and no user in the options.",
)
@click.option(
    "--registry",
    metavar="URL",
    help="A schema registry: values and keys that name their schema (Avro, Protobuf, JSON) are "
    "shown decoded. Requires pip install 'barnabas[schemas]'.",
)
@click.option(
    "--mask",
    "masked",
    metavar="FIELD",
    multiple=True,
    help="Do not show this field of JSON values, at any depth. Values that are not JSON objects "
    "are hidden, and there are no queries.",
)
@click.option(
    "--allow-changes",
    is_flag=True,
    help="Allow producing, setting offsets, redriving and deleting.",
)
@click.option("--no-export", is_flag=True, help="Do not offer downloads of records.")
@cluster_options
@click.pass_context
def command(
    ctx: click.Context,
    listen: Address,
    with_token: bool,
    hosts: tuple[str, ...],
    by_user: bool,
    registry: str | None,
    masked: tuple[str, ...],
    allow_changes: bool,
    no_export: bool,
) -> None:
    """Show topics, groups, brokers, records and what is wrong, in a browser.

    Works with any Kafka cluster. Changes nothing unless --allow-changes is given.
    """
    config = client_config(ctx)
    settings = client_settings(ctx)
    if by_user and not settings.get("security.protocol", "").startswith("SASL_"):
        raise click.UsageError("--users: set -X security.protocol=SASL_SSL, as the brokers have it")
    if by_user and ("sasl.username" in settings or "sasl.jaas.config" in settings):
        raise click.UsageError("--users: the options have a user already; everyone logs in alone")
    token = None if by_user else console_token(listen, with_token)
    run_console_command(
        listen,
        settings,
        config.bootstrap_servers,
        token,
        hosts=tuple(name.lower() for name in hosts),
        allow_changes=allow_changes,
        allow_export=not no_export,
        by_user=by_user,
        registry=registry,
        masked=masked,
    )


def console_token(listen: Address, wanted: bool) -> str | None:
    """An address that other machines reach requires a token."""
    token = os.environ.get(TOKEN_VARIABLE) or None
    if token is not None and len(token) < 16:
        raise click.UsageError(f"${TOKEN_VARIABLE}: expected at least 16 characters")
    if token is None and wanted:
        import secrets

        token = secrets.token_urlsafe(24)
    if token is None and listen.host not in _LOOPBACK:
        raise click.UsageError(f"--listen {listen}: other machines reach this address: use --token")
    return token


def run_console_command(
    listen: Address,
    settings: dict[str, str],
    servers: str,
    token: str | None,
    *,
    hosts: tuple[str, ...] = (),
    allow_changes: bool = False,
    allow_export: bool = True,
    by_user: bool = False,
    registry: str | None = None,
    masked: tuple[str, ...] = (),
) -> None:
    try:
        from barnabas.console.application import ConsoleOptions
        from barnabas.console.masking import FieldMask
        from barnabas.console.serving import console_access, run_console
    except ModuleNotFoundError as missing:
        raise click.ClickException(
            f"{missing.name} is not installed: pip install 'barnabas[console]'"
        ) from None
    options = ConsoleOptions(
        servers=servers,
        allow_changes=allow_changes,
        allow_export=allow_export,
        pipelines=pipeline_rows,
        settings=settings,
        decode=None if registry is None else registry_decoder(registry),
        registry=registry or "",
        registry_worker=REGISTRY_WORKER,
        mask=FieldMask(masked),
        by_user=by_user,
    )

    def say(url: str) -> None:
        from barnabas.cli.brokers.ready import say as say_line

        say_line(f"barnabas console on {url}{'' if token is None else f'?token={token}'}")

    run_console(listen, options, console_access(listen, token, hosts), say)


def registry_decoder(address: str) -> "Callable[[bytes], Any]":
    if not address.startswith(("http://", "https://")):
        raise click.UsageError(f"--registry {address[:200]}: expected http://HOST:PORT")
    from barnabas.pipeline.formats.framed import FramedValues

    return FramedValues(address).decode


def default_listen() -> Address:
    return parse_address(DEFAULT_LISTEN)


def pipeline_rows() -> list[dict[str, Any]]:
    """The pipelines that run or ran on this machine."""
    from dataclasses import asdict

    from barnabas.pipeline.run.roster import entries

    return [{**asdict(entry), **_of_spec(entry)} for entry in entries()]


_looked_up: dict[str, tuple[float, dict[str, Any]]] = {}


def _of_spec(entry: "RosterEntry") -> dict[str, Any]:
    """What only the pipeline's file tells: its topics and its table. Asked from time to time: a
    table may be far away.
    """
    from barnabas.pipeline.errors import PipelineError
    from barnabas.pipeline.run.spec import load

    asked_at, found = _looked_up.get(entry.name, (float("-inf"), {}))
    if time.monotonic() - asked_at < _COUNT_S:
        return found
    found = {}
    try:
        spec = load(Path(entry.spec))
        found = {
            "reads": list(spec.source.topics),
            "retry_topic": spec.errors.retry_topic,
            "dlq": spec.errors.dlq,
            "target": spec.sink.topic or spec.sink.table or spec.sink.path,
            "row_per_record": spec.sink.keep == "all" and spec.transform is None,
        }
        if entry.kind == "lake":
            from barnabas.pipeline.lake.snapshot import row_count

            found["table_rows"] = row_count(spec)
    except (PipelineError, OSError):
        pass  # the file or the table is gone: the run's own numbers are still shown
    _looked_up[entry.name] = (time.monotonic(), found)
    return found
