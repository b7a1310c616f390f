"""A keeper in one SQLite file: the default, shared by the brokers of one machine.

Always: a write that returned is on disk (synchronous=FULL), even after a power cut. Every call of a
session looks for its row first, a write in the same transaction: a process that was stopped until
others removed its session writes nothing any more. Late is who has not renewed in time; expired,
whom someone then removed, with all that is its own. A process that has ended is not waited for.
A call may block on the disk, so not from an event loop; from any thread.
"""

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.keeper.keeper import (
    ANY_VERSION,
    Create,
    Delete,
    Idle,
    Listener,
    Node,
    Operation,
    Result,
    Set,
    check_operations,
)
from barnabas.keeper.sqlite_file import Clock, SqliteFile
from barnabas.model.errors import Failed

if TYPE_CHECKING:
    from barnabas.keeper.sqlite_session import SqliteSession

SESSION_TIMEOUT_MS_MIN = 100
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class SqliteKeeper:
    """Holds the contract of keeper.py in a file; opening it again finds what was there.

    With a timeout it is a session, which a thread renews. With a clock in milliseconds there is no
    thread: time is given, and whoever gives it calls `tick`.
    """

    def __init__(
        self,
        path: str,
        session_timeout_ms: int = 0,
        listener: Listener | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        if session_timeout_ms and session_timeout_ms < SESSION_TIMEOUT_MS_MIN:
            raise ValueError(
                f"session timeout {session_timeout_ms} ms: {SESSION_TIMEOUT_MS_MIN} at least"
            )
        if session_timeout_ms and path == ":memory:":
            raise ValueError("keeper file ':memory:': a session needs a file that others can open")
        time_ms = clock or _monotonic_ms
        boot = _boot_id()
        self._lock = threading.Lock()
        self._file = SqliteFile(path, time_ms, boot)
        self._session: SqliteSession | None = None
        if session_timeout_ms:
            try:
                self._open_session(session_timeout_ms, listener, threaded=clock is None)
            except BaseException:
                self._file.close()
                raise

    def _open_session(self, timeout_ms: int, listener: Listener | None, *, threaded: bool) -> None:
        from barnabas.keeper.sqlite_session import SqliteSession  # a lone broker has none

        file = self._file
        beside = SqliteFile(file.path, file.clock, file.boot)
        try:
            with file.transaction() as now:
                file.remove_over(0, now, late=True)
                id_ = file.open_session(timeout_ms, now)
            self._session = SqliteSession(beside, id_, timeout_ms, listener)
        except BaseException:
            beside.close()
            raise
        if threaded:
            self._session.start()

    @property
    def session(self) -> int:
        return 0 if self._session is None else self._session.id

    def tie_to(self, idle_ms: Idle) -> None:
        if self._session is not None:
            self._session.idle_ms = idle_ms

    def tick(self) -> None:
        """Only where time is given: what the thread does otherwise."""
        if self._session is not None:
            self._session.tick()

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        [made] = self.multi([Create(path, data, ephemeral, sequential)])
        return str(made)

    def get(self, path: str, *, watch: bool = False) -> Node:
        with self._lock:
            self._check_alive()
            row = self._file.row(path)
            if watch:
                self._watching(path).watch(path, row)
        return Node(row.data, row.version, row.created, row.owner)

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        with self._lock:
            self._check_alive()
            rows = self._file.find_many(paths)
        found = {path: Node(*node) for path, *node in rows}
        return [found.get(path) for path in paths]

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        [version_now] = self.multi([Set(path, data, version)])
        assert isinstance(version_now, int)
        return version_now

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self.multi([Delete(path, version)])

    def exists(self, path: str, *, watch: bool = False) -> bool:
        with self._lock:
            self._check_alive()
            row = self._file.find(path)
            if watch:
                self._watching(path).watch(path, row)
        return row is not None

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        with self._lock:
            self._check_alive()
            # Before the names: what changes between the two is told, if of no use.
            row = self._file.row(path)
            names = self._file.children(path)
            if watch:
                self._watching(path).watch(path, row, children=True)
        return names

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        check_operations(operations, self.session)
        with self._lock, self._file.transaction() as now:
            self._check_alive()
            late = self._session is None or self._session.removes(now)
            self._file.remove_over(self.session, now, late=late)
            return self._file.write(operations, self.session)

    def close(self) -> None:
        session = self._session
        if session is not None:
            session.stop()
        with self._lock:
            try:
                if session is not None:
                    with self._file.transaction():
                        self._file.remove_session(session.id)
            except Failed:
                pass  # then it expires
            finally:
                self._file.close()

    def _check_alive(self) -> None:
        if self._session is not None:
            self._session.check()
            if not self._file.is_open(self._session.id):
                raise self._session.over()

    def _watching(self, path: str) -> "SqliteSession":
        if self._session is None:
            raise ValueError(f"keeper node {path}: only a session can watch")
        return self._session


def _monotonic_ms() -> int:
    """The same for all processes of one boot."""
    return time.monotonic_ns() // 1_000_000


def _boot_id() -> str:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
