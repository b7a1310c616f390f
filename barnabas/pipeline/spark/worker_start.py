"""Makes Spark's Python workers start and run faster; docs/adr/0031 has the measurements.

Spark talks to workers over TCP, where the first bytes of each task wait 40 ms for an
acknowledgement. It gives them pyspark as a zip, which each new worker compiles again for half a
second. After every task they run the garbage collector over all loaded modules. And the C library
returns the memory of each batch to the system, which zeroes it page by page for the next batch.
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
    """Options for a session. Spark ignores an option that it does not know."""
    unix = hasattr(socket, "AF_UNIX")
    return {"spark.python.unix.domain.socket.enabled": "true"} if unix else {}


@contextmanager
def unzipped(home: str, python: str) -> Iterator[None]:
    """Start Spark inside this context: its workers then load the pyspark of this process.

    Spark finds the zip through SPARK_HOME, so it is shown a copy of `home` without the zip. Workers
    of another Python keep the zip: they may have no other pyspark.
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
    """A directory of this user, the same each time, so that a killed driver leaves none behind.

    None if it cannot be created, or if another user may change it.
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
    """Called by each task: objects that exist after the first task live as long as the worker.

    Spark has collected the garbage of the first task before the second starts.
    """
    number = next(_tasks)
    if number <= _SECOND and _in_worker():
        if number == _SECOND:
            gc.freeze()
        else:
            _keep_memory()


def _keep_memory() -> None:
    """Keep freed memory for the next batch. Only with glibc; other C libraries are left
    unchanged.
    """
    import ctypes

    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _KEPT_BYTES_MAX // 8)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES_MAX)


def _in_worker() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and main.name == _DAEMON
