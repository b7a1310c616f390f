"""Spares Spark's Python workers what has nothing to do with data: measured in docs/adr/0031.

Spark reaches them over TCP, where the first bytes of each task wait 40 ms for an acknowledgement;
gives them pyspark in a zip, which each new one compiles anew for half a second; and lets them look
for garbage among all that they have loaded after every task. And C's library gives the memory of
each batch back to the system, which zeroes it page by page for the next.
"""

import gc
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from stat import S_ISDIR
from zlib import crc32

from barnabas.pipeline.run import roster

_DAEMON = "pyspark.daemon"
_ZIPPED = Path("python") / "lib" / "pyspark.zip"

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # as glibc numbers them
_SECOND = 2
_KEPT_BYTES_MAX = 256 * 1024 * 1024

_tasks = count(1)


def quick_options() -> dict[str, str]:
    """Options for a session. A Spark that does not know one lets it be."""
    unix = hasattr(socket, "AF_UNIX")
    return {"spark.python.unix.domain.socket.enabled": "true"} if unix else {}


@contextmanager
def unzipped(home: str, python: str) -> Iterator[None]:
    """Start Spark in here: its workers then load pyspark from where this process has it.

    Where the zip lies, Spark knows from SPARK_HOME alone: it is shown all of `home` but that.
    Workers of another Python than this may have no other pyspark than the zip.
    """
    ours = python == sys.executable and "SPARK_HOME" not in os.environ
    if not ours or not (Path(home) / _ZIPPED).exists():
        yield
        return
    links = _links(Path(home))
    if links is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(links)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def _links(home: Path) -> Path | None:
    """A directory of this user's, the same each time: a driver that is killed leaves none behind.

    None if it cannot be made, or someone else may change it.
    """
    links = roster.directory().parent / f"spark-{crc32(str(home).encode()):08x}"
    try:
        links.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = links.lstat()
    except OSError:
        return None
    if found.st_uid != os.getuid() or not S_ISDIR(found.st_mode) or found.st_mode & 0o022:
        return None
    for each in home.iterdir():
        if each.name != _ZIPPED.parts[0]:
            with suppress(FileExistsError):
                (links / each.name).symlink_to(each)
    return links


def settle() -> None:
    """To be called by each task: what a worker has after its first is there to stay.

    Spark has just collected the garbage of that first task when the second comes.
    """
    number = next(_tasks)
    if number <= _SECOND and _in_worker():
        if number == _SECOND:
            gc.freeze()
        else:
            _keep_memory()


def _keep_memory() -> None:
    """Use what was freed again, batch after batch; other libraries than glibc do as they do."""
    import ctypes

    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _KEPT_BYTES_MAX // 8)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES_MAX)


def _in_worker() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and main.name == _DAEMON
