"""The page of memory through which a test tells preload.c what to do, and that library itself.

In: a site and an action. Out: whether the fault has befallen a call; the sites of a recording.
"""

import errno
import functools
import mmap
import subprocess
import sys
import tempfile
from pathlib import Path
from struct import Struct
from typing import NamedTuple

_LAYOUT = Struct("8i32s64s160s")  # struct control in preload.c
_HITS, _RELEASED, _PHASE, _HOLDING = 12, 16, 24, 28
_OFF, _RECORD, _INJECT = range(3)
SLOW_MS = 2_000
ALWAYS = 1 << 30

FIRST_START, RUNNING, CLEAN_STOP, CLEAN_START, KILLED_START = PHASES = (
    "first start",
    "running",
    "clean stop",
    "start after a clean stop",
    "start after a kill",
)
QUICKEST = (RUNNING, CLEAN_STOP, CLEAN_START, KILLED_START, FIRST_START)


class Site(NamedTuple):
    """One place where a broker calls the operating system."""

    phase: str
    call: str
    kind: str
    frame: str

    def __str__(self) -> str:
        return f"{self.call} ({self.kind}) in {self.frame or 'the interpreter or a library'}"


class Action(NamedTuple):
    """What befalls a call: an error number, or one of the three below."""

    name: str
    number: int
    hits_max: int = ALWAYS

    @property
    def lasts(self) -> bool:
        """Or is it over with the first call that meets it?"""
        return self.hits_max > 1

    @property
    def silent(self) -> bool:
        """Nothing went wrong in the end: there is no error to name."""
        return self.number in (-1, -2, -3, errno.EINTR)


SHORT = Action("short", -1, 1)
SLOW = Action("slow", -2, 1)
FROZEN = Action("frozen", -3)
EINTR = Action("EINTR", errno.EINTR, 1)
EIO = Action("EIO", errno.EIO)
ENOSPC = Action("ENOSPC", errno.ENOSPC)
EMFILE = Action("EMFILE", errno.EMFILE)
ENOMEM = Action("ENOMEM", errno.ENOMEM)
ECONNRESET = Action("ECONNRESET", errno.ECONNRESET, 1)

ACTIONS: dict[str, tuple[Action, ...]] = {
    "open": (EIO, EMFILE, EINTR),
    "create": (EIO, ENOSPC, EMFILE, EINTR),
    "opendir": (EIO, EMFILE),
    "read": (EIO, EINTR),
    "pread": (EIO, EINTR),
    "write": (EIO, ENOSPC, EINTR, SHORT, FROZEN),
    "pwrite": (EIO, ENOSPC, EINTR, SHORT, FROZEN),
    "fsync": (EIO, ENOSPC, EINTR, SLOW),
    "fdatasync": (EIO, ENOSPC, EINTR, SLOW),
    "ftruncate": (EIO, ENOSPC, EINTR),
    "rename": (EIO, ENOSPC),
    "unlink": (EIO,),
    "rmdir": (EIO,),
    "mkdir": (EIO, ENOSPC),
    "close": (EIO,),
    "mmap": (ENOMEM,),
    "dup": (EMFILE,),
    "splice from a file": (EIO, EINTR, SHORT),
    "splice to a socket": (ECONNRESET, EINTR, SHORT),
    "recv": (ECONNRESET, EINTR, SHORT),
    "send": (ECONNRESET, EINTR, SHORT),
    "sendmsg": (ECONNRESET, EINTR, SHORT),
    "accept4": (EMFILE, EINTR),
    "connect": (ECONNRESET, EINTR),
    "socket": (EMFILE,),
    "pipe2": (EMFILE,),
    "epoll_ctl": (ENOMEM,),
}
# Errors that Linux does not return for these descriptors.
IMPOSSIBLE = {
    (call, kind, name)
    for call in ("read", "write", "close")
    for kind in ("socket", "pipe", "epoll")
    for name in ("EIO", "ENOSPC")
} | {("write", "pipe", "short")}  # up to a page is written to a pipe as a whole
# libuv aborts the process here, without a word; broker/main.py looks for descriptors before.
ABORTS = {("pipe2", "new descriptor", "broker/main.py:run")}
# Nothing depends on these calls, so nothing is said when they fail: a mapping's own descriptor is
# closed, a directory is made that is there, the process id is written for people to read, and where
# the Unix socket beside a listener cannot be used, TCP is. The other side may end a connection on
# which nobody waits for an answer. Where a session has no lock, its end is noticed by its timeout.
UNIMPORTANT = {
    ("close", "offset index", "log/segments/index.py:MappedEntries.release"),
    ("close", "time index", "log/segments/index.py:MappedEntries.release"),
    ("mkdir", "directory", "broker/main.py:run"),
    ("mkdir", "directory", "log/directory/opening.py:_make_durable_directory"),
    ("ftruncate", ".lock", "broker/main.py:run"),
    ("pwrite", ".lock", "broker/main.py:run"),
    ("close", ".lock", "broker/main.py:run"),
    ("connect", "socket", "broker/net/listeners.py:OpenListeners.connect_between_brokers"),
    ("recv", "socket", "broker/main.py:run"),
    ("create", "keeper.db", "keeper/session_locks.py:SessionLocks._opened"),
}


def unimportant(site: Site) -> bool:
    """May it fail without a word? SQLite ignores the errors of closing and removing its files; what
    it cannot put in place as it closes stays in the write-ahead log."""
    sqlite = site.kind.startswith("keeper.db") and (
        site.call in ("close", "unlink") or site.frame == "keeper/sqlite_file.py:SqliteFile.close"
    )
    sqlite |= site.kind == "directory" and site.frame.startswith("keeper/sqlite_file.py")
    return sqlite or site[1:] in UNIMPORTANT


def actions_for(site: Site) -> list[Action]:
    return [
        action
        for action in ACTIONS[site.call]
        if (site.call, site.kind, action.name) not in IMPOSSIBLE and site[1:] not in ABORTS
    ]


class Control:
    """Of one broker; its process has it mapped, through all its starts."""

    def __init__(self, directory: Path, data: Path) -> None:
        self._path = directory / "control"
        self._path.write_bytes(bytes(4096))
        self._sites = directory / "sites"
        with self._path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 4096)
        self.env = {
            "LD_PRELOAD": library(),
            "OS_FAULTS_CONTROL": str(self._path),
            "OS_FAULTS_SITES": str(self._sites),
            "OS_FAULTS_DATA": str(data),
        }

    def _write(self, mode: int, site: Site, action: Action) -> None:
        self.disarm()
        phase = self.phase
        texts = (text.encode() for text in (site.call, site.kind, site.frame))
        numbers = (_OFF, action.number, action.hits_max, 0, 0, SLOW_MS, phase, 0)
        self._page[: _LAYOUT.size] = _LAYOUT.pack(*numbers, *texts)
        self._page[0:4] = mode.to_bytes(4, sys.byteorder)

    def record(self) -> None:
        self._write(_RECORD, Site("", "", "", ""), EIO)

    def arm(self, site: Site, action: Action) -> None:
        self._write(_INJECT, site, action)

    def disarm(self) -> None:
        """The fault ends; a call that it holds goes on."""
        self._page[0:4] = bytes(4)
        self._page[_RELEASED : _RELEASED + 4] = (1).to_bytes(4, sys.byteorder)

    def _int(self, at: int) -> int:
        return int.from_bytes(self._page[at : at + 4], sys.byteorder)

    @property
    def hits(self) -> int:
        return self._int(_HITS)

    @property
    def phase(self) -> int:
        return self._int(_PHASE)

    @phase.setter
    def phase(self, number: int) -> None:
        self._page[_PHASE : _PHASE + 4] = number.to_bytes(4, sys.byteorder)

    def sites(self) -> list[Site]:
        """In each phase in which it was seen; of one site, the quickest to bring about first."""
        found = set()
        for line in self._sites.read_text().splitlines():
            number, call, kind, frame = line.split("\t")
            if call in ACTIONS and (frame or kind in ("socket", "pipe")):
                found.add(Site(PHASES[int(number)], call, kind, frame))
        return sorted(found, key=lambda site: (QUICKEST.index(site.phase), site[1:]))


@functools.cache
def library() -> str:
    """Compiled once by each process that needs it, with the system's compiler."""
    source = Path(__file__).with_name("preload.c")
    built = Path(tempfile.mkdtemp(prefix="os-faults-")) / "preload.so"
    command = ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(built), str(source)]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    return str(built)
