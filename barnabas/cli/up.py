"""`barnabas up`: a broker, or several, in the foreground."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from barnabas.cli.brokers.ready import READY_LINE, SUPERVISED, say
from barnabas.cli.options import list_options, pairs, read_properties
from barnabas.config import broker
from barnabas.config.alter import check_static, without_effect
from barnabas.config.broker_listeners import check_exposure
from barnabas.config.kinds import Address, ListenerAddress, Listeners, parse_address
from barnabas.model.errors import KafkaError

DEFAULT_DATA = "barnabas-data"
DEFAULT_LISTENER = "PLAINTEXT"
DEFAULT_LISTEN = "127.0.0.1:9092"
ID_MAX = 2**31 - 1
PASSWORDS = ("sasl.jaas.config", ".password", ".keystore.key", ".secret.key")
BROKERS_MAX = 64
_MEMORY = "/dev/shm"
_START_TICKS = 21  # of the fields of /proc/self/stat, counted from 0


class NamedAddress(click.ParamType[ListenerAddress]):
    """[NAME://]HOST:PORT."""

    name = "[NAME://]HOST:PORT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> ListenerAddress:
        text = str(value)
        try:
            (found,) = Listeners().parse(text if "://" in text else f"PLAINTEXT://{text}")
        except ValueError as problem:
            self.fail(f"{value!r}: {problem}", param, ctx)
        return found


class HostAndPort(click.ParamType[Address]):
    """HOST:PORT."""

    name = "HOST:PORT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address:
        try:
            return parse_address(str(value))
        except ValueError as problem:
            self.fail(f"{value!r}: {problem}", param, ctx)


@click.command()
@click.option(
    "--data",
    metavar="DIR",
    multiple=True,
    help=f"The data directory; repeat the option for several disks. [default: {DEFAULT_DATA}]",
)
@click.option("--ephemeral", is_flag=True, help="Keep records in memory only.")
@click.option(
    "--listen",
    type=NamedAddress(),
    multiple=True,
    help="The address to listen on; port 0 picks a free port. SSL://HOST:PORT encrypts. Repeat the "
    f"option for several listeners. [default: {DEFAULT_LISTEN}]",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Allow clients of other machines on a PLAINTEXT listener: no encryption, no login.",
)
@click.option(
    "-n",
    "--brokers",
    type=click.IntRange(1, BROKERS_MAX),
    help="Run a cluster on this machine: one process per broker, on "
    "consecutive ports from --listen.",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT,...",
    help="Join the cluster of this ZooKeeper; a /ROOT path may follow.",
)
@click.option(
    "--id",
    "id_",
    type=click.IntRange(0, ID_MAX),
    help="The id of this broker; with --brokers, the id of the first broker. "
    "[default: the id in its data directory, or a new one]",
)
@click.option("--rack", help="The rack of this broker; replicas are spread over racks.")
@click.option(
    "--metrics", type=HostAndPort(), help="Serve Prometheus metrics on this address, at /metrics."
)
@click.option(
    "--console",
    "console",
    type=HostAndPort(),
    is_flag=False,
    flag_value="127.0.0.1:8080",
    help="Also serve the console, on 127.0.0.1:8080 or this address of this machine.",
)
@click.option(
    "-X",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A broker option by Kafka's name; `-X list` shows them.",
)
@click.option(
    "-F",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    help="A file of broker options, like Kafka's server.properties.",
)
def command(
    data: tuple[str, ...],
    ephemeral: bool,
    listen: tuple[ListenerAddress, ...],
    insecure: bool,
    brokers: int | None,
    zookeeper: str | None,
    id_: int | None,
    rack: str | None,
    metrics: Address | None,
    console: Address | None,
    settings: tuple[str, ...],
    file: str | None,
) -> int:
    """Run a broker here, in the foreground, or a cluster of several.

    Prints one line with its address when it is ready. Ctrl-C or SIGTERM stops it cleanly.
    With --brokers N, a broker that dies is restarted.
    """
    if "list" in settings:
        list_options(broker.OPTIONS.values())
        return 0
    if ephemeral and data:
        raise click.UsageError("--data and --ephemeral exclude each other")
    if any("," in path for path in data):
        raise click.UsageError("--data: a path has no comma; repeat --data for each disk")
    static = _static(settings, file, listen, insecure, several=brokers is not None)
    with _console_too(console, static) as ready:
        return _run(static, data, ephemeral, listen, brokers, zookeeper, id_, rack, metrics, ready)


def _run(
    static: dict[str, str],
    data: tuple[str, ...],
    ephemeral: bool,
    listen: tuple[ListenerAddress, ...],
    brokers: int | None,
    zookeeper: str | None,
    id_: int | None,
    rack: str | None,
    metrics: Address | None,
    ready: Callable[[str], None],
) -> int:
    if rack is not None:
        static["broker.rack"] = rack
    if zookeeper is not None:
        static["zookeeper.connect"] = _zookeeper(zookeeper)
    kept_in = data or broker.BrokerConfig(static).directories
    if brokers is not None:
        where = listen or (ListenerAddress(DEFAULT_LISTENER, *parse_address(DEFAULT_LISTEN)),)
        from barnabas.cli.brokers.up_cluster import run as run_several

        del static["listeners"]  # each broker has its own
        with _directories(data or (DEFAULT_DATA,), ephemeral) as directories:
            return run_several(
                brokers, 1 if id_ is None else id_, directories, where, metrics, static, ready
            )
    if id_ is not None:
        static["node.id"] = str(id_)
    if metrics is not None:
        static["metrics.listen"] = str(metrics)
    with _directories(kept_in, ephemeral) as directories:
        from barnabas.broker.main import run
        from barnabas.cli.brokers.lone_to_cluster import refuse_several

        refuse_several(directories[0])

        lifeline = sys.stdin.fileno() if SUPERVISED in os.environ else None
        return run(static, directories, lambda *at: ready(str(Address(*at))), lifeline=lifeline)


@contextmanager
def _console_too(
    console: Address | None, static: dict[str, str]
) -> Iterator[Callable[[str], None]]:
    if console is None:
        yield _say_ready
        return
    from barnabas.cli.brokers.console_process import console_with, missing_package

    if (missing := missing_package()) is not None:
        raise click.UsageError(
            f"--console: {missing} is not installed: pip install 'barnabas[console]'"
        )
    if console.host not in ("127.0.0.1", "localhost", "::1"):
        raise click.UsageError(
            f"--console {console}: other machines reach this address: run `barnabas console"
            " --token` instead"
        )
    if not static["listeners"].startswith(f"{DEFAULT_LISTENER}://"):
        raise click.UsageError(
            "--console: the first listener must be PLAINTEXT: run `barnabas console -F FILE` with"
            " the options of a client instead"
        )
    with console_with(_say_ready, str(console)) as ready:
        yield ready


def _zookeeper(addresses: str) -> str:
    """Checks for common mistakes; others are found when the broker connects."""
    hosts, slash, root = addresses.partition("/")
    for host in hosts.split(","):
        try:
            parse_address(host)
        except ValueError as problem:
            raise click.UsageError(f"--zookeeper {addresses!r}: {host!r}: {problem}") from None
    if slash and not root:
        raise click.UsageError(f"--zookeeper {addresses!r}: a name is missing after the slash")
    return addresses


def _static(
    settings: tuple[str, ...],
    file: str | None,
    listen: tuple[ListenerAddress, ...],
    insecure: bool,
    *,
    several: bool,
) -> dict[str, str]:
    given = {} if file is None else read_properties(file)
    on_command_line = pairs(settings)
    for name in on_command_line:
        if name.endswith(PASSWORDS):
            raise click.UsageError(
                f"-X {name}=...: every user of this machine can read a command line. Put it into a"
                " file for -F"
            )
    given.update(on_command_line)
    if several and "listeners" in given:
        raise click.UsageError("listeners: each of several brokers has its own; use --listen")
    if listen:
        given["listeners"] = Listeners().format(listen)
    given.setdefault("listeners", f"{DEFAULT_LISTENER}://{DEFAULT_LISTEN}")
    if insecure:
        given["listeners.insecure.allow"] = "true"
    try:
        static = check_static(given)
        check_exposure(broker.BrokerConfig(static))
    except KafkaError as problem:
        raise click.UsageError(problem.detail) from None
    for name, reason in without_effect(static):
        click.echo(f"barnabas: {name} has no effect: {reason}", err=True)
    return static


@contextmanager
def _directories(data: Sequence[str], ephemeral: bool) -> Iterator[Sequence[str]]:
    if not ephemeral:
        yield data
        return
    import shutil
    import tempfile

    in_memory = _MEMORY if os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK) else None
    directory = tempfile.mkdtemp(prefix="barnabas-", dir=in_memory)
    try:
        yield [directory]
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _say_ready(addresses: str) -> None:
    say(f"{READY_LINE}{addresses} ({_age_ms()} ms)")


def _age_ms() -> int:
    """Since this process was started, by the kernel's count, which is in steps of 10 ms."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
    started = int(fields[_START_TICKS - 2]) / os.sysconf("SC_CLK_TCK")
    return round((time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1000)
