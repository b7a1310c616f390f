"""The health of this broker: its event loop, its open files, its disks, its log lines.

In: log directories, the heartbeat of the loop, the logger. Out: figures, for `/metrics` and for
`barnabas status`.
Always: nothing here accesses a disk, which may not answer.
"""

from typing import NamedTuple

from barnabas.broker.loop_heartbeat import LoopHeartbeat
from barnabas.broker.storage.storage import Storage
from barnabas.system.logs import Logger
from barnabas.system.machine import open_files

STATES = ("online", "full", "offline")


class LogDirHealth(NamedTuple):
    """`reason`: why it is offline."""

    path: str
    state: str
    reason: str = ""


class Health(NamedTuple):
    """`open_files` is -1 if the system does not report it."""

    loop_delay_ms_p99: int
    open_files: int
    open_files_max: int
    log_lines_dropped: int
    log_dirs: list[LogDirHealth]


def health_of(logs: Storage, heartbeat: LoopHeartbeat, log: Logger) -> Health:
    log_dirs = []
    for log_directory in logs.log_directories:
        if not log_directory.online:
            log_dirs.append(LogDirHealth(log_directory.path, "offline", log_directory.failure))
        else:
            log_dirs.append(
                LogDirHealth(log_directory.path, "full" if log_directory.full else "online")
            )
    for path, reason in logs.unopened.items():
        log_dirs.append(LogDirHealth(path, "offline", reason))
    opened, most = open_files()
    return Health(heartbeat.delay_ms_p99(), opened, most, log.dropped, log_dirs)
