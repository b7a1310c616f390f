"""Options that every command shares: which cluster, and how to speak to it.

They may be before or after the name of the command; the later one has precedence.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas.config.client import OPTIONS, ClientConfig
from barnabas.config.kinds import ConfigType
from barnabas.config.option import Option
from barnabas.config.properties import parse_properties
from barnabas.model.errors import InvalidRequest, KafkaError

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.cluster import ClusterClient

F = TypeVar("F", bound=Callable[..., Any])
SERVERS_VARIABLE = "BARNABAS_BOOTSTRAP_SERVERS"
PASSWORD_VARIABLE = "BARNABAS_SASL_PASSWORD"  # noqa: S105 - a name, not a password
_KEY = "barnabas.settings"


def cluster_options(command: F) -> F:
    """-b, -X and -F."""
    for option in (
        click.option(
            "-X",
            "settings",
            metavar="NAME=VALUE",
            multiple=True,
            expose_value=False,
            callback=_take_settings,
            help="A client option by Kafka's name; `-X list` shows them.",
        ),
        click.option(
            "-F",
            "file",
            type=click.Path(exists=True, dir_okay=False),
            expose_value=False,
            callback=_take_file,
            help="A file of client options, name=value.",
        ),
        click.option(
            "-b",
            "--bootstrap-servers",
            metavar="HOST:PORT,...",
            expose_value=False,
            callback=_take_servers,
            help=f"Brokers to ask first. [default: ${SERVERS_VARIABLE}, or localhost:9092]",
        ),
    ):
        command = option(command)
    return command


def client_settings(ctx: click.Context, defaults: Mapping[str, str] = {}) -> dict[str, str]:
    """All options of the command line. `defaults`: those of the command."""
    settings = {**defaults, **_settings(ctx)}
    if servers := os.environ.get(SERVERS_VARIABLE):
        settings.setdefault("bootstrap.servers", servers)
    if (password := os.environ.get(PASSWORD_VARIABLE)) and settings.get("sasl.username"):
        settings.setdefault("sasl.password", password)
    return settings


def client_config(ctx: click.Context, defaults: Mapping[str, str] = {}) -> ClientConfig:
    """The options, checked."""
    try:
        return ClientConfig(client_settings(ctx, defaults))
    except KafkaError as problem:
        raise click.UsageError(problem.detail) from None


def open_cluster(ctx: click.Context, defaults: Mapping[str, str] = {}) -> "ClusterClient":
    from barnabas.client.blocking.net import BlockingNet
    from barnabas.client.cluster import ClusterClient

    try:
        return ClusterClient(client_config(ctx, defaults), BlockingNet())
    except InvalidRequest as problem:  # no request was sent yet: -b is wrong
        raise click.UsageError(problem.detail) from None


@contextmanager
def open_admin(ctx: click.Context) -> Iterator["Admin"]:
    from barnabas.client.blocking.admin import Admin

    with open_cluster(ctx) as cluster:
        yield Admin(cluster=cluster)


def pairs(texts: Iterable[str], what: str = "NAME=VALUE") -> dict[str, str]:
    """name=value, each."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{text!r}: expected {what}")
        found[name.strip()] = value
    return found


def read_properties(path: str) -> dict[str, str]:
    """The options in a file given to -F."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except UnicodeDecodeError as problem:
        raise click.UsageError(f"-F {path}: byte {problem.start} is not UTF-8") from None
    except KafkaError as problem:
        raise click.UsageError(f"-F {path}: {problem.detail}") from None


def list_options(options: Iterable[Option[Any]]) -> None:
    """What `-X list` shows."""
    for option in options:
        default = option.format(option.default)
        click.echo(f"{option.name}={'' if default is None else default}")
        click.echo(f"    {option.doc}")


def _settings(ctx: click.Context) -> dict[str, str]:
    settings: dict[str, str] = ctx.find_root().meta.setdefault(_KEY, {})
    return settings


def _take_settings(ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> None:
    if "list" in texts:
        list_options(OPTIONS.values())
        ctx.exit()
    given = pairs(texts)
    for name in given:
        option = OPTIONS.get(name)
        if option is not None and option.kind.type is ConfigType.PASSWORD:
            raise click.UsageError(
                f"-X {name}=...: every user of this machine can read a command line. Put it into a"
                f" file for -F, or the password into ${PASSWORD_VARIABLE} or sasl.password.file"
            )
    _settings(ctx).update(given)


def _take_file(ctx: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is not None:
        for name, value in read_properties(path).items():
            _settings(ctx).setdefault(name, value)


def _take_servers(ctx: click.Context, parameter: click.Parameter, servers: str | None) -> None:
    if servers is not None:
        _settings(ctx)["bootstrap.servers"] = servers
