"""`barnabas tls`: certificates for development."""

import os
import re
import shlex
import socket

import click

from barnabas.cli.command_group import NamedCommands

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_DAYS = 365


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
def command() -> None:
    """Make certificates for development."""


@command.command()
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="A name or address of the broker, besides localhost and the name of this machine.",
)
@click.option("--user", "users", multiple=True, help="A user with a certificate. [default: client]")
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=_DAYS,
    show_default=True,
    help="How long the certificates are valid.",
)
def dev(directory: str, hosts: tuple[str, ...], users: tuple[str, ...], days: int) -> None:
    """Make a certificate authority, and certificates for a broker and for users.

    DIR gets ca.pem (to trust), server.pem and server.p12 (for brokers), NAME.pem and NAME.p12 for
    each user. Run it again with --user to add users. These files are for development: everyone who
    can read ca-key.pem can become any user.
    """
    for name in users:
        if not _NAME.fullmatch(name) or name in ("ca", "ca-key", "server"):
            raise click.UsageError(
                f"--user {name!r}: expected up to 63 letters, digits, dots, hyphens and underscores"
            )
    try:
        from barnabas.cli.security.dev_certificates import PKCS12_PASSWORD, DevAuthority
    except ImportError:
        raise click.ClickException(
            "certificates need the package cryptography: pip install 'barnabas[tls]'"
        ) from None
    authority = DevAuthority(directory, days)
    authority.server("server", ("localhost", "127.0.0.1", "::1", socket.gethostname(), *hosts))
    for name in users or ("client",):
        if not authority.user(name):
            click.echo(f"barnabas: {name} has a certificate already", err=True)
    where = os.path.abspath(directory)
    first = (users or ("client",))[0]
    click.echo(f"certificates in {where}; the password of the PKCS12 files is {PKCS12_PASSWORD}")
    listen = "SSL://127.0.0.1:9093"
    keys, trusted = shlex.quote(f"{where}/server.pem"), shlex.quote(f"{where}/ca.pem")
    click.echo(f"broker:  barnabas up --listen {listen} -X ssl.keystore.location={keys} \\")
    click.echo(f"           -X ssl.truststore.location={trusted} -X ssl.client.auth=required")
    own = shlex.quote(f"{where}/{first}.pem")
    click.echo("client:  security.protocol=SSL")
    click.echo(f"         ssl.truststore.location={trusted}")
    click.echo(f"         ssl.keystore.location={own}")
