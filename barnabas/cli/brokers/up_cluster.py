"""`barnabas up --brokers N`: the brokers, their data directories and their listeners.

Always: broker i has DIR/broker-i and, with a given port, the first port plus i - 1; its id belongs
to its directory. A directory belongs to one broker or to several, never to both: one broker can
become several (lone_to_cluster.py), but not the other way.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import click

from barnabas.cli.brokers.forked import STDIN, Forked
from barnabas.cli.brokers.lone_to_cluster import KEEPER_FILE, broker_numbers, grow, is_of_one
from barnabas.cli.brokers.ready import FAILED_LINE
from barnabas.cli.brokers.supervisor import Supervisor
from barnabas.config.kinds import Address, ListenerAddress, Listeners
from barnabas.system.disk import DirectoryLock

_PORT_MAX = 65_535
# What each broker has of its own, and what sets it.
_OWN = {
    "node.id": "--id",
    "broker.id": "--id",
    "listeners": "--listen",
    "advertised.listeners": "--listen",
    "metrics.listen": "--metrics",
    "log.dir": "--data",
    "log.dirs": "--data",
    "keeper.file": "--data",
}


def run(
    count: int,
    first_id: int,
    data: Sequence[str],
    listen: Sequence[ListenerAddress],
    metrics: Address | None,
    static: Mapping[str, str],
    ready: Callable[[str], None],
) -> int:
    """The exit code."""
    for name in static:
        if name in _OWN:
            raise click.UsageError(f"{name}: each of several brokers has its own; use {_OWN[name]}")
    for address in (*listen, metrics):
        if address is not None and address.port and address.port + count - 1 > _PORT_MAX:
            raise click.UsageError(f"{count} brokers from port {address.port} on are too many")
    directories = [os.path.abspath(path) for path in data]
    settings = dict(static)
    if "zookeeper.connect" not in settings:
        settings["keeper.file"] = os.path.join(directories[0], KEEPER_FILE)
        # The expected number of brokers, although not all are up when the first client connects.
        settings.setdefault("offsets.topic.replication.factor", str(min(3, count)))
    with ExitStack() as held:
        for path in directories:
            os.makedirs(path, exist_ok=True)
            held.callback(DirectoryLock(path).release)
        for path in directories:
            if is_of_one(path):
                _may_grow(path, settings)
                grow(path, first_id, count)
        _tell_of_more(directories, count)
        _import_broker()
        starts = []
        for i in range(count):
            own = {**settings, "node.id": str(first_id + i)}
            if metrics is not None:
                own["metrics.listen"] = str(Address(metrics.host, _nth(metrics.port, i)))
            where = [os.path.join(path, f"broker-{i + 1}") for path in directories]
            at = [each._replace(port=_nth(each.port, i)) for each in listen]
            starts.append((first_id + i, partial(_start, own, where, at, ready)))
        return Supervisor(starts, ready).run()


def _import_broker() -> None:
    """Imports all modules of a broker once: forked processes inherit them."""
    import encodings.idna  # noqa: F401 the first look for an address does it

    from barnabas.broker import main  # noqa: F401
    from barnabas.broker.cluster import membership as cluster  # noqa: F401
    from barnabas.broker.handlers import leader_and_isr, update_metadata  # noqa: F401
    from barnabas.wire import decoder, encoder  # noqa: F401


def _may_grow(directory: str, settings: Mapping[str, str]) -> None:
    if "zookeeper.connect" in settings:
        raise click.UsageError(
            f"{directory} holds the data of a lone broker, which is not in ZooKeeper: give "
            "another --data"
        )
    if broker_numbers(directory):
        raise click.UsageError(
            f"{directory} holds the data of one broker and of several: give another --data"
        )


def _tell_of_more(directories: Sequence[str], count: int) -> None:
    left = sorted(
        {number for path in directories for number in broker_numbers(path) if number > count}
    )
    if left:
        names = ", ".join(f"broker-{number}" for number in left)
        click.echo(f"barnabas: {names} stay down: --brokers is {count}", err=True)


def _start(
    static: Mapping[str, str],
    directories: Sequence[str],
    listen: Sequence[ListenerAddress],
    ready: Callable[[str], None],
    port: int,
) -> Forked:
    """`port`: the one that its first listener had before, or 0."""
    first, *others = listen
    at = [first._replace(port=port or first.port), *others]

    def run() -> int:
        from barnabas.broker.main import run

        return run(
            {**static, "listeners": Listeners().format(tuple(at))},
            directories,
            lambda host, port: ready(str(Address(host, port))),
            _say_failed,
            STDIN,
        )

    return Forked(f"broker-{static['node.id']}", run)


def _say_failed(reason: str) -> None:
    """Sends a line to the supervisor, which may be gone."""
    try:
        click.echo(FAILED_LINE + " ".join(reason.split()))
    except OSError:
        return


def _nth(port: int, index: int) -> int:
    return port + index if port else 0
