"""How well this broker is, beside being alive: its event loop, its open files, its disks, its log.

In: a broker. Out: figures, for `/metrics` and for `barnabas status`.
Always: nothing here asks a disk, which may not answer.
"""

from typing import TYPE_CHECKING, NamedTuple

from barnabas.system.machine import open_files

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

STATES = ("online", "full", "offline")


class LogDirState(NamedTuple):
    """`reason` says why it is offline."""

    path: str
    state: str
    reason: str = ""


class Health(NamedTuple):
    """`open_files` is -1 where the system does not say."""

    loop_delay_ms_p99: int
    open_files: int
    open_files_max: int
    log_lines_dropped: int
    log_dirs: list[LogDirState]


def health_of(broker: "Broker") -> Health:
    log_dirs = []
    for volume in broker.logs.volumes:
        if not volume.online:
            log_dirs.append(LogDirState(volume.path, "offline", volume.failure))
        else:
            log_dirs.append(LogDirState(volume.path, "full" if volume.full else "online"))
    for path, reason in broker.logs.unopened.items():
        log_dirs.append(LogDirState(path, "offline", reason))
    opened, most = open_files()
    return Health(broker.heartbeat.delay_ms_p99(), opened, most, broker.log.dropped, log_dirs)
