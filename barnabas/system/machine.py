"""The boot id of this machine, and how many files this process has open."""

import os
import resource

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_DESCRIPTORS = "/proc/self/fd"


def boot_id() -> str:
    """Changes with each boot; empty if the system has none."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def open_files() -> tuple[int, int]:
    """How many files this process has open, or -1; and the limit."""
    try:
        opened = len(os.listdir(_DESCRIPTORS)) - 1  # without the descriptor that lists them
    except OSError:
        opened = -1
    return opened, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
