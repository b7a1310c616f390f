"""Starts a broker on this machine's clock, disk and network, and stops it on a signal."""

import gc
import os
import resource
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress

import uvloop

from barnabas.broker.broker import Broker
from barnabas.broker.keepers import open_own
from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.system.clock import SystemClock
from barnabas.system.disk import DirectoryLock, SystemDisk
from barnabas.system.logs import Logger
from barnabas.system.network import SystemNetwork


def run(settings: Mapping[str, str], data: Sequence[str], ready: Callable[[str, int], None]) -> int:
    """Until SIGTERM or SIGINT. `ready` is told the address once the broker answers.

    `data`: the log directories; the first one holds the keeper's file too.
    The exit code: 0 after a clean stop, 1 when the broker could not start or go on.
    """
    log = Logger()
    directories = list(dict.fromkeys(os.path.abspath(path) for path in data))
    try:
        with ExitStack() as held:
            for number, path in enumerate(directories):
                try:
                    os.makedirs(path, exist_ok=True)
                    held.callback(DirectoryLock(path).release)
                except OSError:
                    if not number:  # of the others, whatever can be used is
                        raise
            uvloop.run(_serve({**settings, "log.dirs": ",".join(directories)}, ready, log))
    except (KafkaError, OSError) as error:
        log.error("broker stopped", reason=str(error))
        return 1
    return 0


async def _serve(
    settings: Mapping[str, str], ready: Callable[[str, int], None], log: Logger
) -> None:
    open_files_max = _raise_file_limit()
    keeper = open_own(settings["log.dirs"].partition(",")[0])
    broker = Broker(
        settings,
        SystemClock(),
        SystemDisk(),
        SystemNetwork(log),
        keeper,
        log,
        open_files_max,
        host_name,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        broker.loop.add_signal_handler(number, broker.stopping.set)
    try:
        broker.start()
        await broker.start_metrics()
    except BaseException:
        with suppress(OSError):  # what went wrong first is what to tell
            await broker.stop()
        raise
    _calm_garbage_collection()
    ready(broker.host, broker.port)
    await broker.stopping.wait()
    log.info("broker stopping")
    await broker.stop()
    if broker.failure:
        raise Failed(Code.KAFKA_STORAGE_ERROR, broker.failure)


def host_name() -> str:
    """The name of this machine, if it leads anywhere; else the one that always does, from here."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return "localhost"
    return name


def _raise_file_limit() -> int:
    """Each connection and each segment is an open file; the default limit is often 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 20


def _calm_garbage_collection() -> None:
    """Requests leave no circles behind: what lives now lives for good, and the rest can wait."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
