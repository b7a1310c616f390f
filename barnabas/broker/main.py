"""Starts a broker on this machine's clock, disk and network, and stops it on a signal."""

import asyncio
import errno
import gc
import os
import resource
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial

import uvloop

from barnabas.broker.broker import Broker
from barnabas.broker.keepers import open_own, open_session
from barnabas.config.broker import BrokerConfig
from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.system.clock import SystemClock
from barnabas.system.disk import DirectoryLock, SystemDisk
from barnabas.system.logs import Logger, take_over
from barnabas.system.network import SystemNetwork

LOOP_DESCRIPTORS = 8  # what an event loop opens when it is created
OPEN_FILES_MAX = 1 << 20  # used if there is no hard limit; the usual fs.nr_open


def run(
    settings: Mapping[str, str],
    data: Sequence[str],
    ready: Callable[[str, int], None],
    failed: Callable[[str], None] | None = None,
    lifeline: int | None = None,
) -> int:
    """Run until SIGTERM or SIGINT. `ready` is called with the address once the broker answers.

    `data`: the log directories; a lone broker's first one has the keeper's file too.
    `failed` is called with the reason if the broker could not start or continue. `lifeline`: a
    descriptor that the parent process keeps open while the broker should run.
    The exit code: 0 after a clean stop, 1 if the broker could not start or continue.
    """
    log = Logger()
    directories = list(dict.fromkeys(os.path.abspath(path) for path in data))
    try:
        with ExitStack() as held:
            for number, path in enumerate(directories):
                try:
                    os.makedirs(path, exist_ok=True)
                    held.callback(DirectoryLock(path).release)
                except OSError as error:
                    if not number:  # of the others, those that can be used are used
                        raise _unusable(path, error) from None
            full = {**settings, "log.dirs": ",".join(directories)}
            _check_descriptors()
            uvloop.run(_serve(full, ready, lifeline, log))
    except (KafkaError, OSError) as error:
        reason = str(error)
        if isinstance(error, OSError) and error.filename is None and error.strerror:
            reason = error.strerror  # without its number
        log.error("broker stopped", reason=reason)
        if failed is not None:
            failed(reason)
        return 1
    finally:
        log.close()
    return 0


def _unusable(path: str, error: OSError) -> OSError:
    """The same error, with what to do."""
    remedy = "name another directory (--data, or log.dirs)"
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        remedy = f"it is a file, or below one: {remedy}"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = f"this user may not write there: change its owner or its mount, or {remedy}"
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = f"free some space, or {remedy}"
    return OSError(error.errno, f"data directory {path}: {error.strerror}: {remedy}")


async def _serve(
    settings: Mapping[str, str],
    ready: Callable[[str, int], None],
    lifeline: int | None,
    log: Logger,
) -> None:
    take_over(log, asyncio.get_running_loop())
    open_files_max = _raise_file_limit()
    config = BrokerConfig(settings)
    if config.clustered and "node.id" in settings:
        log.node = config.node_id
    broker = Broker(
        settings,
        SystemClock(),
        SystemDisk(),
        SystemNetwork(log),
        partial(open_session, config) if config.clustered else open_own(config.directories[0]),
        log,
        open_files_max,
        host_name,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        broker.loop.add_signal_handler(number, broker.stopping.set)
    if lifeline is not None:
        _watch(broker, lifeline)
    try:
        if not await _joined(broker):
            return
        await broker.start_metrics()
    except BaseException:
        with suppress(OSError):  # report the first error, not this one
            await broker.stop()
        raise
    _tune_garbage_collection()
    log.info("limit of open files", open_files_max=open_files_max)
    ready(broker.host, broker.port)
    await broker.stopping.wait()
    log.info("broker stopping")
    await broker.stop()
    if broker.failure:
        raise Failed(Code.KAFKA_STORAGE_ERROR, broker.failure)


async def _joined(broker: Broker) -> bool:
    """Joining a cluster may take long; a stop request ends the wait. False: stopped."""
    if broker.cluster is None:
        broker.start()
        return True
    joining = broker.loop.create_task(broker.join())
    stopping = broker.loop.create_task(broker.stopping.wait())
    await asyncio.wait((joining, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if joining.done():
        joining.result()
        broker.log.node = broker.id
        return True
    joining.cancel()
    await asyncio.wait((joining,))
    await broker.stop()
    if broker.failure:
        raise Failed(Code.KAFKA_STORAGE_ERROR, broker.failure)
    return False


def _watch(broker: Broker, lifeline: int) -> None:
    """The process that started this broker has ended when the other end of the pipe is closed."""
    os.set_blocking(lifeline, False)

    def readable() -> None:
        with suppress(BlockingIOError):
            if not os.read(lifeline, 4096):
                broker.loop.remove_reader(lifeline)
                broker.log.warning("broker stopping: the process that started it has ended")
                broker.stopping.set()

    broker.loop.add_reader(lifeline, readable)


def host_name() -> str:
    """The name of this machine if it resolves, otherwise localhost."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return "localhost"
    return name


def _check_descriptors() -> None:
    """Raises a clear OSError: libuv aborts the process if it finds no free descriptor."""
    opened: list[int] = []
    try:
        while len(opened) < LOOP_DESCRIPTORS:
            opened += os.pipe()
    finally:
        for fd in opened:
            os.close(fd)


def _raise_file_limit() -> int:
    """Each connection and each segment is an open file; the default limit is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else OPEN_FILES_MAX
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a limit of the system (fs.nr_open), or of a container
        return soft
    return wanted


def _tune_garbage_collection() -> None:
    """Requests create no reference cycles: existing objects stay alive, and collection can be
    rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
